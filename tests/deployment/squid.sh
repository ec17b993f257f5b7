#!/bin/bash
# Runs in namespaces of its own (check_egress.py): squid with our configuration, a "world" on lo, and what each URL gets.
set -eu
conf=$HUSK_SOURCE/deployment/egress-proxy/squid.conf
ip link set lo up
for address in 93.184.216.34/32 10.1.2.3/32 172.16.9.9/32 192.168.3.3/32 100.64.1.1/32 169.254.169.254/32; do ip addr add $address dev lo; done
for address in 2606:2800::1/128 fc00::5/128 fe80::77/128; do ip addr add $address dev lo nodad; done
mount -t tmpfs tmpfs /run
install -m 0644 "$conf" /run/squid.conf # the checkout may be below /tmp
mount -t tmpfs tmpfs /tmp
chmod 1777 /tmp
install -d -o proxy -g proxy /run/squid
cd /run
/usr/bin/python3 -c '
import http.server, socket
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Server(("::", 80), http.server.SimpleHTTPRequestHandler).serve_forever()' >/dev/null 2>&1 &
setpriv --reuid proxy --regid proxy --clear-groups squid --foreground -f /run/squid.conf >/run/squid/log 2>&1 &
for _ in $(seq 100); do
    if curl -s -o /dev/null --max-time 1 http://127.0.0.1:3128/; then break; fi
    sleep 0.1
done
for url in http://93.184.216.34/ 'http://[2606:2800::1]/' 'http://[::ffff:93.184.216.34]/' http://10.1.2.3/ http://172.16.9.9/ \
    http://192.168.3.3/ http://100.64.1.1/ http://169.254.169.254/latest/ 'http://[fc00::5]/' http://127.0.0.1/ 'http://[::1]/' \
    'http://[::ffff:10.1.2.3]/' http://localhost/ http://2130706433/ http://0177.0.0.1/ 'http://[64:ff9b::a01:203]/' http://93.184.216.34:22/; do
    case $url in *:22/) url=http://10.1.2.3:22/ ;; esac
    echo "$url $(curl -g -s -o /dev/null --max-time 10 -w '%{http_code}' -x http://127.0.0.1:3128 "$url")"
done
