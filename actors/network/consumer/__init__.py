"""The consumer's side of an exchange: input gates and their channels.

Open `input_gate.py` first. A channel is local (same slot, by reference) or remote (by messages, against credit);
`capture.py` collects its rows for unaligned checkpoints. May import the producer's side.
"""
