#!/bin/bash
# Runs in namespaces of its own (check_egress.py): a "host" that routes between a "container" and the "world", and what
# the container reaches once deployment/optional/host-firewall has been applied.
set -eu
firewall=$HUSK_SOURCE/deployment/optional/host-firewall
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
ip link set lo up
for name in container world; do
    ip netns add $name
    ip -n $name link set lo up
done
ip link add c0 type veth peer name eth0 netns container
ip link add w0 type veth peer name eth0 netns world
ip addr add 172.30.0.1/16 dev c0
ip addr add 93.184.216.1/24 dev w0
ip link set c0 up
ip link set w0 up
ip -n container addr add 172.30.0.2/16 dev eth0
ip -n container link set eth0 up
ip -n container route add default via 172.30.0.1
ip -n world addr add 93.184.216.34/24 dev eth0
for address in 10.1.2.3 10.9.9.9 169.254.169.254; do
    ip -n world addr add $address/32 dev lo
    ip route add $address/32 via 93.184.216.34
done
ip -n world link set eth0 up
ip -n world route add default via 93.184.216.1
echo 1 >/proc/sys/net/ipv4/ip_forward
serve='import http.server
http.server.ThreadingHTTPServer(("0.0.0.0", 80), http.server.SimpleHTTPRequestHandler).serve_forever()'
ip netns exec world /usr/bin/python3 -c "$serve" >/dev/null 2>&1 &
/usr/bin/python3 -c "$serve" >/dev/null 2>&1 &
try() {
    if ip netns exec container curl -s -o /dev/null --max-time 5 "http://$1/"; then echo open; else echo refused; fi
}
for _ in $(seq 50); do
    if [ "$(try 93.184.216.34)$(try 172.30.0.1)" = openopen ]; then break; fi
    sleep 0.1
done

"$firewall" --subnet 172.30.0.0/16 >/dev/null
if nft list ruleset | grep -q husk_egress || [ "$(try 10.1.2.3)" != open ]; then printed=no; else printed=yes; fi
echo "printed-changes-nothing $printed"
"$firewall" --subnet 172.30.0.0/16 --allow 10.9.9.9 --apply >/dev/null
"$firewall" --subnet 172.30.0.0/16 --allow 10.9.9.9 --apply >/dev/null
echo "public $(try 93.184.216.34)"
echo "private $(try 10.1.2.3)"
echo "metadata $(try 169.254.169.254)"
echo "host $(try 172.30.0.1)"
echo "allowed $(try 10.9.9.9)"
"$firewall" --remove >/dev/null
echo "removed $(if [ "$(try 10.1.2.3)" = open ]; then echo yes; else echo no; fi)"
