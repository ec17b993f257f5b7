#!/bin/bash
# The nginx configuration that huskctl makes: the committed samples are what it makes now, and nginx takes it in
# every form. Ends with 77 where there is no nginx.
set -euo pipefail

source=$(cd "${HUSK_SOURCE:-.}" && pwd)
huskctl=${HUSKCTL:-$PWD/huskctl}
PATH=$PATH:/usr/sbin
dir=$(mktemp -d /tmp/husk-nginx-conf-XXXXXX)
trap 'rm -rf "$dir"' EXIT

fail() { echo "FAIL: $*" >&2; exit 1; }

# make_conf FILE NAME=VALUE…: the configuration for these settings
make_conf() {
    local out=$1
    shift
    env -i PATH="$PATH" ${ASAN_OPTIONS:+ASAN_OPTIONS="$ASAN_OPTIONS"} "$@" "$huskctl" --config /dev/null config --nginx >"$out"
}

# takes WHAT FILE: does nginx?
takes() {
    nginx -t -q -p "$dir" -e stderr -c "$2" 2>"$dir/said" || { cat "$dir/said" >&2; fail "nginx refuses $1"; }
}

tls=(SANDBOX_TLS_CERTIFICATE=/etc/husk/tls/cert.pem SANDBOX_TLS_CERTIFICATE_KEY=/etc/husk/tls/key.pem)
make_conf "$dir/plain.conf"
make_conf "$dir/tls.conf" "${tls[@]}" SANDBOX_LISTEN=443
diff "$source/nginx/husk.conf" "$dir/plain.conf" || fail "nginx/husk.conf is not what huskctl config --nginx makes"
diff "$source/nginx/husk-tls.conf" "$dir/tls.conf" || fail "nginx/husk-tls.conf is not what it makes with TLS"

[ "$(grep -c '^ *internal;' "$dir/plain.conf")" = "$(grep -c '^ *client_max_body_size 0;' "$dir/plain.conf")" ] ||
    fail "an error with a large body would go round in a circle and end as a page of nginx's own"

make_conf "$dir/proxy.conf" SANDBOX_AUTH=proxy SANDBOX_PROXY_USER_HEADER=X-My-User
grep -q 'fastcgi_param HTTP_X_MY_USER "";' "$dir/proxy.conf" || fail "a client's own user header would pass"
grep -q 'fastcgi_param HTTP_PROXY "";' "$dir/plain.conf" || fail "HTTP_PROXY would pass"
make_conf "$dir/limits.conf" SANDBOX_RATE_PER_SECOND=10 SANDBOX_CONNECTIONS_PER_CLIENT=0 SANDBOX_LISTEN=unix:"$dir/s" \
    SANDBOX_SERVER_NAME="a.example *.b.example"
if grep -q limit_conn "$dir/limits.conf"; then fail "a limit of 0 is no limit"; fi
grep -q 'fastcgi_read_timeout 690s;' "$dir/plain.conf" || fail "the read timeout does not exceed the longest execution"

make_conf "$dir/cors.conf" SANDBOX_CORS_ORIGINS='https://a.example, http://[::1]:3000'
for line in '"https://a.example" "https://a.example";' '"http://[::1]:3000" "http://[::1]:3000";'; do
    grep -qF "$line" "$dir/cors.conf" || fail "an origin is missing: $line"
done
make_conf "$dir/any.conf" SANDBOX_CORS_ORIGINS='*'
grep -qF 'default "*";' "$dir/any.conf" || fail "not any origin"

command -v nginx >/dev/null || { echo "SKIP: no nginx here"; exit 77; }
takes "the plain one" "$dir/plain.conf"
takes "origins" "$dir/cors.conf"
takes "any origin" "$dir/any.conf"
takes "rates, a unix socket and names" "$dir/limits.conf"

# With proxy authentication it must not start before somebody said how callers are known.
if nginx -t -q -p "$dir" -e stderr -c "$dir/proxy.conf" 2>/dev/null; then fail "proxy without husk-auth.conf is taken"; fi
: >"$dir/husk-auth.conf"
if nginx -t -q -p "$dir" -e stderr -c "$dir/proxy.conf" 2>/dev/null; then fail "a husk-auth.conf that sets no user is taken"; fi
# shellcheck disable=SC2016
echo 'auth_basic husk; auth_basic_user_file htpasswd; set $husk_user $remote_user;' >"$dir/husk-auth.conf"
takes "proxy authentication" "$dir/proxy.conf"

if command -v openssl >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=husk.example \
        -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>/dev/null
    make_conf "$dir/real-tls.conf" SANDBOX_TLS_CERTIFICATE="$dir/cert.pem" SANDBOX_TLS_CERTIFICATE_KEY="$dir/key.pem"
    takes "TLS" "$dir/real-tls.conf"
fi
echo "nginx takes all of them"
