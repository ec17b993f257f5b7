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
ip addr add fd00:30::1/64 dev c0 nodad
ip addr add 2606:2800::1/64 dev w0 nodad
ip link set c0 up
ip link set w0 up
ip -n container addr add 172.30.0.2/16 dev eth0
ip -n container addr add fd00:30::2/64 dev eth0 nodad
ip -n container link set eth0 up
ip -n container route add default via 172.30.0.1
ip -n container route add default via fd00:30::1
ip -n world addr add 93.184.216.34/24 dev eth0
ip -n world addr add 2606:2800::34/64 dev eth0 nodad
for address in 10.1.2.3 10.9.9.9 169.254.169.254; do
    ip -n world addr add $address/32 dev lo
    ip route add $address/32 via 93.184.216.34
done
ip -n world link set eth0 up
ip -n world route add default via 93.184.216.1
for address in fd00:99::1 2001:db8::1; do
    ip -n world addr add $address/128 dev lo nodad
    ip route add $address/128 via 2606:2800::34
done
ip -n world route add default via 2606:2800::1
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
# a page on port 80, and on port 53 what stands for a resolver
serve='import http.server, socket, threading
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
for port in (80, 53):
    server = Server(("::", port), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever).start()'
ip netns exec world /usr/bin/python3 -c "$serve" >/dev/null 2>&1 &
/usr/bin/python3 -c "$serve" >/dev/null 2>&1 &
try() {
    if ip netns exec container curl -g -s -o /dev/null --max-time 5 "http://$1/"; then echo open; else echo refused; fi
}
for _ in $(seq 50); do
    if [ "$(try 93.184.216.34)$(try 172.30.0.1)$(try '[2606:2800::34]')$(try 10.1.2.3:53)" = openopenopenopen ]; then break; fi
    sleep 0.1
done

"$firewall" --subnet 172.30.0.0/16 >/dev/null
if nft list ruleset | grep -q husk_egress || [ "$(try 10.1.2.3)" != open ]; then printed=no; else printed=yes; fi
echo "printed-changes-nothing $printed"
words=(--subnet 172.30.0.0/16 --subnet fd00:30::/64 --allow 10.9.9.9 --resolver 10.1.2.3 --resolver 172.30.0.1)
"$firewall" "${words[@]}" --apply >/dev/null
"$firewall" "${words[@]}" --apply >/dev/null
# as a host that has just come up: neighbours have to be found again, through the rules
ip -n container neigh flush dev eth0
ip neigh flush dev c0
echo "public $(try 93.184.216.34)"
echo "public6 $(try '[2606:2800::34]')"
echo "private $(try 10.1.2.3)"
echo "private6 $(try '[fd00:99::1]')"
echo "documentation6 $(try '[2001:db8::1]')"
echo "metadata $(try 169.254.169.254)"
echo "host $(try 172.30.0.1)"
echo "host-other-leg $(try 93.184.216.1)"
echo "host6 $(try '[fd00:30::1]')"
echo "host6-other-leg $(try '[2606:2800::1]')"
echo "host6-link-local $(try "[$(ip -6 -o addr show dev c0 scope link | sed 's|.*inet6 \([^/]*\)/.*|\1|')%25eth0]")"
echo "allowed $(try 10.9.9.9)"
echo "resolver $(try 10.1.2.3:53)"
echo "resolver-on-the-host $(try 172.30.0.1:53)"
"$firewall" --remove >/dev/null
echo "removed $(if [ "$(try 10.1.2.3)" = open ]; then echo yes; else echo no; fi)"
