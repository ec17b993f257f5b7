#!/bin/bash
# Boots systemd in namespaces of its own, on an overlay of this machine's files, and runs a script in it as a service.
# Nothing it installs, writes or starts reaches the machine. usage: boot.sh SCRIPT FILE…
# The script finds the files in /run/check; what it prints is printed; its exit status is the answer.
set -euo pipefail
if [ "${1:-}" != --inside ]; then
    export CHECK
    CHECK=$(mktemp -d /tmp/husk-boot-XXXXXX)
    trap 'rm -rf "$CHECK"' EXIT
    cp "$@" "$CHECK/"
    export SCRIPT=${1##*/}
    # groups of its own, so that systemd finds a place for its units
    groups=()
    while IFS=: read -r _ controllers path; do
        name=${controllers#name=}
        for folder in "/sys/fs/cgroup/${name:-unified}$path" "/sys/fs/cgroup$path"; do
            [ -d "$folder" ] && [ -w "$folder/cgroup.procs" ] || continue
            mkdir -p "$folder/husk-boot-$$"
            groups+=("$folder/husk-boot-$$")
            if [ "$name" = cpuset ]; then
                cat "$folder/cpuset.cpus" >"$folder/husk-boot-$$/cpuset.cpus"
                cat "$folder/cpuset.mems" >"$folder/husk-boot-$$/cpuset.mems"
            fi
            break
        done
    done </proc/self/cgroup
    (
        for group in "${groups[@]}"; do echo $BASHPID >"$group/cgroup.procs"; done
        exec timeout --kill-after=5 240 unshare -muinC --propagation private unshare -pf --kill-child --mount-proc bash "$0" --inside
    ) >"$CHECK/console" 2>&1 || true
    for group in "${groups[@]}"; do
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
    done
    cat "$CHECK/output" 2>/dev/null || true
    status=$(cat "$CHECK/status" 2>/dev/null) || { tail -n 30 "$CHECK/console"; echo "boot.sh: the script did not end"; exit 1; }
    exit "$status"
fi

root=$CHECK/root
mkdir "$root"
mount -t tmpfs -o size=4g husk-boot "$root"
mkdir "$root/upper" "$root/work" "$root/root"
mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" overlay "$root/root"
cd "$root/root"
mount --rbind /dev dev
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
chmod 1777 tmp
mkdir run/check
mount --bind "$CHECK" run/check
mount -t tmpfs tmpfs sys/fs/cgroup
for controller in cpu cpuacct cpuset memory devices freezer blkio pids; do
    mkdir "sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "sys/fs/cgroup/$controller" || rmdir "sys/fs/cgroup/$controller"
done
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
# Nothing of the machine's own start: it would set the kernel's variables, load modules, mount what is everybody's.
rm -rf lib/systemd/system/*.wants etc/systemd/system/*.wants lib/systemd/system/proc-sys-fs-binfmt_misc.*
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys
units=run/systemd/system
mkdir -p $units
cat >$units/check.target <<EOF
[Unit]
Requires=basic.target check.service
EOF
cat >$units/check.service <<EOF
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
Environment=PATH=$PATH:/usr/sbin:/sbin DEBIAN_FRONTEND=noninteractive
ExecStart=/bin/bash -c 'bash /run/check/$SCRIPT >/run/check/output 2>&1; echo \$? >/run/check/status; systemctl exit --force --force'
EOF
for unit in basic.target sysinit.target local-fs.target sockets.target timers.target multi-user.target graphical.target; do
    printf '[Unit]\nDefaultDependencies=no\n' >$units/$unit
done
for unit in dbus.socket dbus.service; do ln -s /dev/null $units/$unit; done
ip link set lo up
mkdir -p mnt/old
pivot_root . mnt/old
umount -l mnt/old || true
export container=husk-check
exec /lib/systemd/systemd --unit=check.target --log-target=console --log-level=warning --show-status=0
