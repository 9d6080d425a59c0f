"""mailbox"""
