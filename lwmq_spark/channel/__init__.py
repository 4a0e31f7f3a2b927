"""Channels: each is a conversation with one peer, in messages or in raw buffers.

channel.py       Channel and its statistics
settings.py      the settings from which a channel is made
listener.py      one address, many clients
send_queue.py    where the application posts
readiness.py     awaiting a channel on an event loop
selector.py      many channels served by one thread, in turns
calls.py         messages delivered by callback
router.py        which queues a message goes to, by its topic and headers
requests.py      requests and their replies
threads.py       where the library's threads run
raw.py           buffers without messages: get, fill, send; receive, dispose
transports.py    the available providers, and what an address allows
"""

from lwmq_spark.channel.channel import Channel, ChannelStatistics, FilterState, Peer
from lwmq_spark.channel.listener import Listener, ListenerStatistics
from lwmq_spark.channel.raw import ReceiveBuffer, SendBuffer
from lwmq_spark.channel.requests import Frames, Replies, Reply, Request, Requests
from lwmq_spark.channel.router import Router
from lwmq_spark.channel.selector import Selector
from lwmq_spark.channel.send_queue import Priority, SendQueue, SendQueueStatistics
from lwmq_spark.channel.threads import set_service_affinity
from lwmq_spark.channel.transports import Limits, filters, limits, providers

__all__ = [
    "Channel",
    "ChannelStatistics",
    "FilterState",
    "Frames",
    "Limits",
    "Listener",
    "ListenerStatistics",
    "Peer",
    "Priority",
    "ReceiveBuffer",
    "Replies",
    "Reply",
    "Request",
    "Requests",
    "Router",
    "Selector",
    "SendBuffer",
    "SendQueue",
    "SendQueueStatistics",
    "filters",
    "limits",
    "providers",
    "set_service_affinity",
]
