#!/bin/sh
# Starts the gateway that Husk's workers talk to: Jupyter Server (Debian's), Jupyter Kernel Gateway or Jupyter
# Enterprise Gateway. usage: gateway-launch.sh, with in its environment
#   SANDBOX_GATEWAY_AUTH_TOKEN  the token; without one nothing is started
#   HUSK_GATEWAY                server (default), kernel-gateway or enterprise-gateway
#   HUSK_GATEWAY_PYTHON         the interpreter that has it (default /usr/bin/python3)
#   HUSK_KERNEL_PYTHON          the interpreter of kernels, where HUSK_LAUNCH is not set (default /usr/bin/python3)
#   HUSK_GATEWAY_PORT           the port it listens on (default 8888)
#   HUSK_GATEWAY_ADDRESS        the address (default 127.0.0.1)
#   HUSK_GATEWAY_STATE          a private directory (default /var/lib/husk/gateway)
#   JUPYTER_RUNTIME_DIR         connection files and sockets; short (default $HUSK_GATEWAY_STATE/run)
#   HUSK_LAUNCH                 the program husk-launch: kernels run in husk-keeper's sandboxes
#   HUSK_KEEPER_DIR             the keeper's sockets (default /run/husk-keeper)
#   SANDBOX_EGRESS_PROXY        with no HUSK_LAUNCH: the proxy that kernels are told of
#   HUSK_KERNEL_NAMES           kernelspecs that it offers, all alike (default docsgpt-python)
#   HUSK_GATEWAY_INIT           a program that starts the gateway and collects orphans, where it is to be process 1
#   HUSK_TRASH                  where the service puts workspaces that are to be removed, or nothing
set -eu
case ${1:-} in -h | --help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

here=$(cd "$(dirname "$0")" && pwd)
token=${SANDBOX_GATEWAY_AUTH_TOKEN:-}
if [ -z "$token" ]; then
    echo "gateway-launch: SANDBOX_GATEWAY_AUTH_TOKEN is not set: refusing to start a gateway that anyone can use" >&2
    exit 78
fi
state=${HUSK_GATEWAY_STATE:-/var/lib/husk/gateway}
runtime=${JUPYTER_RUNTIME_DIR:-$state/run}
python=${HUSK_GATEWAY_PYTHON:-/usr/bin/python3}
umask 077
mkdir -p "$state/home" "$state/root" "$runtime/homes"

# The token goes by standard input: neither arguments nor the environment of anything that lives on
# hold it.
exec env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 HOME="$state/home" \
    JUPYTER_CONFIG_DIR="$state/home/.jupyter" JUPYTER_DATA_DIR="$state/home/.local/share/jupyter" \
    JUPYTER_PATH="$here" JUPYTER_RUNTIME_DIR="$runtime" HUSK_TRASH="${HUSK_TRASH:-}" \
    HUSK_KERNEL_PYTHON="${HUSK_KERNEL_PYTHON:-}" SANDBOX_EGRESS_PROXY="${SANDBOX_EGRESS_PROXY:-}" \
    HUSK_KERNEL_NAMES="${HUSK_KERNEL_NAMES:-}" HUSK_LAUNCH="${HUSK_LAUNCH:-}" HUSK_KEEPER_DIR="${HUSK_KEEPER_DIR:-}" HUSK_GATEWAY_ADDRESS="${HUSK_GATEWAY_ADDRESS:-127.0.0.1}" \
    ${HUSK_GATEWAY_INIT:+"$HUSK_GATEWAY_INIT"} "$python" "$here/gateway-launch.py" "${HUSK_GATEWAY:-server}" "${HUSK_GATEWAY_PORT:-8888}" "$state/root" <<TOKEN
$token
TOKEN
