#!/bin/bash
# Runs under boot.sh's systemd: the package is installed, started, used, upgraded, removed and purged; then what
# docs/deployment.md says to do after a make install, and to have the state in another place, is done as it stands there.
set -euo pipefail
old=$(ls /run/check/husk_0.1.0_*.deb) new=$(ls /run/check/husk_0.1.1_*.deb)
say() { echo "--- $*"; }
fail() {
    echo "FAILED: $*"
    journalctl --no-pager -n 60 2>/dev/null || true
    for unit in husk-keeper husk-gateway husk husk-nginx; do systemctl status --no-pager --lines=5 $unit || true; done
    echo "FAILED: $*"
    exit 1
}
wait_for() {
    local what=$1 end=$((SECONDS + 60))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "$what: not within 60 s"
        sleep 0.2
    done
}
# Loop devices are the machine's, where a Husk may run.
loops() { losetup -l -n -O NAME,BACK-FILE | grep ' /var/lib/husk-keeper/' | sort || true; }
loops_before=$(loops)
# as on a machine that never had it
for user in husk husk-kernel husk-web; do userdel $user 2>/dev/null || true; done
for group in husk husk-kernel husk-files husk-web; do groupdel $group 2>/dev/null || true; done
rm -rf /var/lib/husk /var/lib/husk-gateway /var/lib/husk-keeper /etc/husk
# what keeps packages from starting services where no systemd is
rm -f /usr/sbin/policy-rc.d
/lib/systemd/systemd-journald & sleep 0.5

say install
dpkg -i "$old"
[ "$(stat -c '%U:%G %a' /etc/husk/husk.conf)" = "root:husk 640" ] || fail "husk.conf: $(stat -c '%U:%G %a' /etc/husk/husk.conf)"
[ "$(stat -c '%U:%G %a' /etc/husk/gateway.env)" = "root:root 600" ] || fail "gateway.env"
wait_for "readyz" curl -sf http://127.0.0.1:8080/readyz
chmod 0700 /etc/husk
if runuser -u husk -- huskctl db check 2>/run/said || ! grep -q 'husk.conf: Permission denied' /run/said; then
    fail "settings out of reach: $(cat /run/said)"
fi
chmod 0750 /etc/husk
for unit in husk-keeper.socket husk-gateway husk husk-nginx husk-reaper.timer; do
    systemctl is-active --quiet $unit || fail "$unit is not active"
    systemctl is-enabled --quiet $unit || fail "$unit is not enabled"
done

say use
key=$(huskctl key create --owner me | grep -o 'husk_[A-Za-z0-9_-]*' | head -n 1)
call() { curl -sf -H "Authorization: Bearer $key" -H 'Content-Type: application/json' "$@"; }
call -d '{"session_id": "kept"}' http://127.0.0.1:8080/v1/sessions >/run/session.json || fail "open"
grep -o '"isolation":"[a-z]*"' /run/session.json
grep -q '"isolation":"host"' /run/session.json || fail "not in tier host: $(cat /run/session.json)"
call -d '{"code": "x = 41\nopen(\"f.txt\", \"w\").write(\"kept\")\nprint(x + 1)"}' http://127.0.0.1:8080/v1/sessions/kept/exec | grep -q '"stdout":"42\\n"' ||
    fail "exec"

say "the keeper restarts, the session goes on"
systemctl restart husk-keeper
wait_for "readyz" curl -sf http://127.0.0.1:8080/readyz
call -d '{"code": "print(x)"}' http://127.0.0.1:8080/v1/sessions/kept/exec | grep -q '"stdout":"41\\n"' || fail "state after the keeper's restart"

say upgrade
before=$(cksum /etc/husk/husk.conf /etc/husk/gateway.env)
dpkg -i "$new"
[ "$before" = "$(cksum /etc/husk/husk.conf /etc/husk/gateway.env)" ] || fail "the upgrade changed settings"
wait_for "readyz after the upgrade" curl -sf http://127.0.0.1:8080/readyz
[ "$(call http://127.0.0.1:8080/v1/sessions/kept/files/f.txt)" = kept ] || fail "the file after the upgrade"
call -d '{"code": "print(open(\"f.txt\").read())"}' http://127.0.0.1:8080/v1/sessions/kept/exec | grep -q '"stdout":"kept\\n"' ||
    fail "exec after the upgrade"

say remove
dpkg -r husk
for unit in husk-gateway husk husk-nginx husk-reaper.timer husk-keeper; do
    if systemctl is-active --quiet $unit; then fail "$unit is active after the removal"; fi
done
end=$((SECONDS + 20))
while pgrep -u husk,husk-kernel,husk-web >/dev/null || pgrep -f 'husk-|ipykernel' >/dev/null; do
    [ $SECONDS -lt $end ] || fail "processes are left: $(ps -eo user,args | grep -E 'husk|ipykernel')"
    sleep 0.2
done
[ -f /etc/husk/husk.conf ] || fail "removal took the settings away"
[ -f /var/lib/husk/husk.db ] || fail "removal took the database away"

say purge
dpkg -P husk
for path in /etc/husk /var/lib/husk /var/lib/husk-gateway /var/lib/husk-keeper /lib/systemd/system/husk.service /usr/lib/sysusers.d/husk.conf; do
    if [ -e $path ]; then fail "$path is left after the purge"; fi
done
end=$((SECONDS + 10))
until [ "$(loops)" = "$loops_before" ]; do
    [ $SECONDS -lt $end ] || fail "loop devices are left: $(losetup -l)"
    sleep 0.2
done
# documented HEADING: runs the commands that the document has below it, and finds the key they make
documented() {
    sed -n "/^### $1/,/^###* /p" /run/check/deployment.md | sed -n '/^```sh/,/^```$/{/^```/d;p}' >/run/commands
    [ "$(wc -l </run/commands)" -gt 10 ] || fail "no commands below $1"
    timeout 90 bash -euxo pipefail /run/commands >/run/said 2>&1 || fail "$1: $(cat /run/said)"
    key=$(grep -o 'husk_[A-Za-z0-9_-]*' /run/said | tail -n 1)
    wait_for "readyz" curl -sf http://127.0.0.1:8080/readyz
    call -d '{"code": "print(6 * 7)"}' http://127.0.0.1:8080/v1/exec >/run/session.json || fail "$1: exec"
    grep -q '"stdout":"42\\n"' /run/session.json || fail "$1: $(cat /run/session.json)"
}

say "from source"
# (its build and make install are what made the package; /lib leads to /usr/lib)
dpkg-deb --fsys-tarfile "$new" | tar -x -C / --keep-directory-symlink
chmod 0755 /etc/husk
documented "From source"

say "another place for the state"
documented "Another place for the state"
[ -f /srv/husk/husk.db ] && [ -d /srv/husk-keeper/folders ] || fail "nothing in the new place: $(ls -R /srv)"
[ "$(stat -c %U /srv/husk/husk.db)" = husk ] || fail "the new database is $(stat -c %U /srv/husk/husk.db)'s"
say "done"
