"""Channels: a conversation with one peer, in messages or in raw buffers.

    settings.py      what a channel is made from
    transports.py    which providers there are, and what an address allows
    threads.py       on which processors the library's threads run
    state.py         what a channel tells of itself
    send_queue.py    where the application posts
    raw.py           buffers without messages: get, fill, send; receive, dispose
    calls.py         messages by call-back
    unclosed.py      channels that a program forgets to close
    channel.py       Channel
    listener.py      one address, many clients
    selector.py      many channels by one thread, in turns
    router.py        to which queues a message goes, by its topic and headers
    requests.py      requests and their replies

A file imports only from those above it.
"""

from lwmq_spark.channel.channel import Channel
from lwmq_spark.channel.listener import Listener, ListenerStatistics
from lwmq_spark.channel.raw import ReceiveBuffer, SendBuffer
from lwmq_spark.channel.requests import Frames, Replies, Reply, Request, Requests
from lwmq_spark.channel.router import Router
from lwmq_spark.channel.selector import Selector
from lwmq_spark.channel.send_queue import Priority, SendQueue, SendQueueStatistics
from lwmq_spark.channel.state import ChannelStatistics, FilterState, Peer
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
