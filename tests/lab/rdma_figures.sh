# Ours beside perftest over each RDMA device of the guest. Both devices copy with the processor, which QEMU may
# emulate: the figures measure software RDMA, and say nothing about a network card.
echo "software RDMA: these figures say nothing about a network card"
.venv/bin/lwmq perf --help >/dev/null  # an emulated Python takes a while to start at first
for host in 10.77.0.1 10.77.1.1; do
  for tool in ib_write_bw ib_write_lat; do
    size=1048576 count=200
    [ $tool = ib_write_lat ] && size=64 count=1000
    timeout 60 $tool -R -F -s $size -n $count >/tmp/server 2>&1 &
    sleep 2
    echo "$host $tool, $size B: $(timeout 60 $tool -R -F -s $size -n $count $host | grep "^ *$size " | tr -s ' ')"
    wait
  done
  echo "$host lwmq perf:"
  timeout 120 .venv/bin/lwmq perf "rdma://$host:7471/perf?auth=none" --seconds 2
done
