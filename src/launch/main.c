/* SPDX-License-Identifier: MIT */
/*
 * husk-launch: what the kernelspec names, so that the gateway starts a kernel in a sandbox.
 *
 * It runs as the gateway's user and does all that concerns the gateway's paths: it reads the
 * connection file, binds the five listeners where the gateway will connect, and hands them, stdout
 * and stderr to husk-keeper with one message.  The connection then leads to the sandbox's monitor:
 * signals go in, the exit status comes out, and closing it ends the sandbox.  It ends itself the
 * way the kernel did, so that the gateway sees the truth, and at once when the gateway is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/packet.h"
#include "keeper/wire.h"
#include "launch/connection.h"

#define PROGRAM_NAME "husk-launch"
#define KEEPER_DIR "/run/husk-keeper"

#define KEEPER_WAIT_MS 10000 /* for a keeper that is just being started again */
#define KEEPER_RETRY_MS 50
#define START_MS 30000 /* from the request to the sandbox's first instruction */
#define SEND_MS 2000
#define BACKLOG 64

/* As in sysexits(3). */
#define EXIT_BAD_USAGE 64
#define EXIT_BAD_FILE 66
#define EXIT_NO_KEEPER 69
#define EXIT_FAULT 70
#define EXIT_NO_SOCKET 73

static const char usage[] =
    "usage: husk-launch [--keeper DIR] -f CONNECTION_FILE\n"
    "\n"
    "Starts a kernel in a sandbox of husk-keeper's; the argv of a Jupyter kernelspec.\n"
    "\n"
    "  -f FILE       the connection file that the gateway has written\n"
    "  --keeper DIR  where husk-keeper's sockets are (default " KEEPER_DIR ")\n"
    "  --help        this text\n"
    "  --version     the version\n";

struct launch {
    const char *keeper_dir, *file;
    int gateway_fd; /* pidfd of the process that started us */
    int signal_fd;
    int listeners[CONNECTION_CHANNELS];
    char sockets[CONNECTION_CHANNELS][sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct connection connection;
    struct wire_start start;
};

static int
fail(int status, const char *about, const struct err *err)
{
    fprintf(stderr, PROGRAM_NAME ": %s%s%s\n", about ? about : "", about ? ": " : "", err->msg);
    return status;
}

/* The gateway as a process: PDEATHSIG would follow the thread of it that started us. */
static int
watch_gateway(struct launch *l, struct err *err)
{
    pid_t parent = getppid();

    l->gateway_fd = (int)syscall(SYS_pidfd_open, parent, 0);
    if (l->gateway_fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot watch the gateway");
    if (getppid() != parent)
        return err_set(err, ERR_ABORTED, "the gateway has ended");
    return 0;
}

static int
take_signals(struct launch *l, struct err *err)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        (void)sigaddset(&set, wanted[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot block signals");
    l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return l->signal_fd < 0 ? err_sys(err, ERR_INTERNAL, errno, "cannot wait for signals") : 0;
}

static int
read_connection(struct launch *l, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(CONNECTION_FILE_MAX);
    _cleanup_buf_ struct buf inside = BUF_INIT(WIRE_CONNECTION_MAX);

    if (connection_kernel(l->file, l->start.kernel, sizeof(l->start.kernel), err) < 0 ||
        fd_read_file(l->file, &text, err) < 0 ||
        connection_parse(buf_str(&text), text.len, &l->connection, err) < 0)
        return -1;
    (void)connection_write(&l->connection, &inside);
    if (buf_check(&inside, "the connection file for the sandbox", err) < 0)
        return -1;
    memcpy(l->start.connection, buf_str(&inside), inside.len);
    l->start.connection_len = (uint32_t)inside.len;
    return 0;
}

/* A socket that an earlier kernel left there makes room; anything else does not. */
static void
remove_stale(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        (void)unlink(path);
}

static int
bind_listener(struct launch *l, enum connection_channel channel, struct err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    l->listeners[channel] = fd;
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot make a socket");
    if (connection_socket(&l->connection, channel, at.sun_path, sizeof(at.sun_path)) < 0)
        return err_set(err, ERR_LIMIT,
                       "the path %s is too long for a socket: give the gateway a runtime directory "
                       "below 57 bytes",
                       l->connection.ip);
    remove_stale(at.sun_path);
    if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot bind %s", at.sun_path);
    memcpy(l->sockets[channel], at.sun_path, sizeof(at.sun_path));
    if (listen(fd, BACKLOG) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot listen at %s", at.sun_path);
    return 0;
}

static int
bind_listeners(struct launch *l, struct err *err)
{
    for (int i = 0; i < CONNECTION_CHANNELS; i++)
        if (bind_listener(l, (enum connection_channel)i, err) < 0)
            return -1;
    return 0;
}

/* The sandbox has its own copies; what keeps ours open would keep clients waiting. */
static void
close_listeners(struct launch *l)
{
    for (int i = 0; i < CONNECTION_CHANNELS; i++) {
        cleanup_close(&l->listeners[i]);
        l->listeners[i] = -1;
    }
}

/* Nobody else removes them when the gateway was killed. */
static void
remove_sockets(struct launch *l)
{
    for (int i = 0; i < CONNECTION_CHANNELS; i++)
        if (l->sockets[i][0])
            (void)unlink(l->sockets[i]);
}

/* Waits for the gateway's end or a signal; true: it is time to go. */
static bool
called_off(struct launch *l, int wait_ms)
{
    struct pollfd p[2] = {{.fd = l->gateway_fd, .events = POLLIN},
                          {.fd = l->signal_fd, .events = POLLIN}};
    struct signalfd_siginfo si;

    if (poll(p, 2, wait_ms) <= 0)
        return false;
    if (p[0].revents)
        return true;
    /* An interrupt of a kernel that does not run yet is no news. */
    return read(l->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si) && si.ssi_signo != SIGINT;
}

/* Connects, waiting a while for a keeper that is not there: it may be just being replaced. */
static int
connect_keeper(struct launch *l, struct err *err)
{
    struct deadline d = deadline_in(KEEPER_WAIT_MS);
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];

    if (snprintf(path, sizeof(path), "%s/" WIRE_LAUNCH_SOCKET, l->keeper_dir) >= (int)sizeof(path))
        return err_set(err, ERR_INVALID, "the path of the keeper's directory is too long");
    for (;;) {
        int fd = packet_connect(path, d, err);

        if (fd >= 0)
            return fd;
        if (err->sys_errno == EACCES)
            return err_set(err, ERR_DENIED,
                           "husk-keeper does not serve this user: %s (SANDBOX_GATEWAY_USER names "
                           "whom it serves)",
                           path);
        if (err->sys_errno != ENOENT && err->sys_errno != ECONNREFUSED)
            return err_wrap(err, "husk-keeper");
        if (deadline_passed(d))
            return err_wrap(err, "husk-keeper does not run: waited %d s", KEEPER_WAIT_MS / 1000);
        if (called_off(l, KEEPER_RETRY_MS))
            return err_set(err, ERR_ABORTED, "called off while waiting for husk-keeper");
    }
}

static int
send_start(struct launch *l, int keeper, struct err *err)
{
    int fds[WIRE_START_FDS] = {STDOUT_FILENO, STDERR_FILENO};

    l->start.version = WIRE_VERSION;
    l->start.op = WIRE_START;
    memcpy(fds + 2, l->listeners, sizeof(l->listeners));
    if (packet_send(keeper, &l->start, sizeof(l->start), fds, WIRE_START_FDS,
                    deadline_in(SEND_MS)) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot ask husk-keeper");
    close_listeners(l);
    return 0;
}

/* Ends as the kernel did: with its exit code or by its signal. */
static int
end_as(int value)
{
    const struct rlimit none = {0, 0};
    sigset_t all;

    if (value >= 0)
        return value;
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(-value, SIG_DFL);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
    (void)raise(-value);
    return 128 - value;
}

/* An event of the monitor: -1 go on, else the exit status is *ret and all is over. */
static bool
take_event(int monitor, struct deadline *start, int *ret)
{
    struct wire_event e;
    struct err err = ERR_INIT;
    int n_fds = 0,
        r = packet_receive(monitor, &e, sizeof(e), NULL, 0, &n_fds, deadline_in(0), &err);

    if (r <= 0 || e.version != WIRE_VERSION) {
        err_set(&err, ERR_INTERNAL, "the sandbox's monitor is gone");
        *ret = fail(EXIT_FAULT, NULL, &err);
        return true;
    }
    if (e.op == WIRE_STARTED)
        *start = DEADLINE_NEVER;
    if (e.op != WIRE_EXIT)
        return false;
    e.detail[sizeof(e.detail) - 1] = '\0';
    if (e.detail[0])
        fprintf(stderr, PROGRAM_NAME ": %s\n", e.detail);
    *ret = e.value;
    return true;
}

static void
relay_signals(struct launch *l, int monitor)
{
    struct signalfd_siginfo si;

    while (read(l->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
        struct wire_event e = {
            .version = WIRE_VERSION, .op = WIRE_SIGNAL, .value = (int32_t)si.ssi_signo};
        (void)packet_send(monitor, &e, sizeof(e), NULL, 0, deadline_in(SEND_MS));
    }
}

/* As long as the sandbox lives. Closing the connection, by ending, ends it. */
static int
serve(struct launch *l, int monitor)
{
    struct deadline start = deadline_in(START_MS);
    struct err err = ERR_INIT;

    for (;;) {
        struct pollfd p[3] = {{.fd = monitor, .events = POLLIN},
                              {.fd = l->signal_fd, .events = POLLIN},
                              {.fd = l->gateway_fd, .events = POLLIN}};
        int status = 0;

        if (poll(p, 3, start.at_ms == INT64_MAX ? -1 : deadline_poll_ms(start, START_MS)) < 0 &&
            errno != EINTR)
            return EXIT_FAULT;
        if (p[2].revents)
            return EXIT_FAULT; /* nobody is there to be told */
        if (p[1].revents)
            relay_signals(l, monitor);
        if (p[0].revents && take_event(monitor, &start, &status))
            return status;
        if (deadline_passed(start)) {
            err_set(&err, ERR_TIMEOUT, "the sandbox did not start within %d s", START_MS / 1000);
            return fail(EXIT_NO_KEEPER, NULL, &err);
        }
    }
}

static int
run(struct launch *l)
{
    struct err err = ERR_INIT;

    if (watch_gateway(l, &err) < 0 || take_signals(l, &err) < 0)
        return fail(EXIT_FAULT, NULL, &err);
    if (read_connection(l, &err) < 0)
        return fail(EXIT_BAD_FILE, l->file, &err);
    if (bind_listeners(l, &err) < 0)
        return fail(EXIT_NO_SOCKET, NULL, &err);
    _cleanup_close_ int keeper = connect_keeper(l, &err);
    if (keeper < 0 || send_start(l, keeper, &err) < 0)
        return fail(EXIT_NO_KEEPER, NULL, &err);
    return serve(l, keeper);
}

/* -1 go on, else the exit status. */
static int
parse_options(struct launch *l, int argc, char **argv)
{
    static const struct option options[] = {{"keeper", required_argument, NULL, 'k'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "f:hV", options, NULL)) != -1) {
        if (c == 'h')
            return fputs(usage, stdout) < 0;
        if (c == 'V')
            return puts(PROGRAM_NAME " " PACKAGE_VERSION) < 0;
        if (c == 'f')
            l->file = optarg;
        else if (c == 'k')
            l->keeper_dir = optarg;
        else
            break;
    }
    if (c == -1 && optind == argc && l->file)
        return -1;
    (void)fputs(usage, stderr);
    return EXIT_BAD_USAGE;
}

int
main(int argc, char **argv)
{
    static struct launch l = {.keeper_dir = KEEPER_DIR,
                              .gateway_fd = -1,
                              .signal_fd = -1,
                              .listeners = {-1, -1, -1, -1, -1}};
    int status = parse_options(&l, argc, argv);

    if (status >= 0)
        return status;
    fd_raise_limit(); /* whatever the sessions of this user have on its way */
    status = run(&l);
    remove_sockets(&l);
    return end_as(status);
}
