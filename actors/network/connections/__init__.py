"""Connections between slots: what one slot sends and receives for all channels, and what is asked for again if lost.

Open `environment.py` first, then `sender.py` and `receiver.py`. May import the producer's and the consumer's side.

What becomes of a lost message: buffers, credits and the like are not sent again. The host reports the loss
(`DeliveryFailed`), `environment.py` fails the channels that the message was about, and their tasks run again. Only the
request for a partition that is not registered yet is repeated: `partition_requests.py`. What the masters and task
executors send is repeated by `actors.scheduling.liveness.lost_messages`.
"""
