# In the lab: serves vsock://2:7000 here, and boots a guest of this guest in which a client connects to its host. Neither has a
# network card.
set -eu
address="vsock://2:7000/hello?auth=none"
.venv/bin/python -c '
import sys, lwmq_spark as lwmq
with lwmq.Channel(sys.argv[1], "server") as channel:
    print("serves", flush=True)
    print(bytes(channel.receive(900)).decode(), "from process", channel.peer.pid, flush=True)
' "$address" >/run/lab/host_said &
until grep -q serves /run/lab/host_said; do sleep 1; done
mkdir /tmp/inner
LAB_CID=42 LAB_MEMORY=768M tests/lab/lab run /tmp/inner build/dev/samples/sample_hello "$address"
cp /tmp/inner/output /run/lab/guest_said
wait
