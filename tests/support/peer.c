/* SPDX-License-Identifier: MIT */
#include "support/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sig.h"

#define START_MS 20000
#define STOP_MS 3000

static void
child(int in, int out, const char *const argv[])
{
    sig_reset_all();
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)dup2(in, 0);
    (void)dup2(out, 1);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

/* The first line: a port. */
static int
read_port(int fd)
{
    struct deadline d = deadline_in(START_MS);
    char line[32];
    size_t n = 0;

    while (n < sizeof line - 1 && fd_wait(fd, POLLIN, d) == 1 && read(fd, line + n, 1) == 1) {
        if (line[n] == '\n')
            break;
        n++;
    }
    line[n] = '\0';
    return (int)strtol(line, NULL, 10);
}

int
peer_start(struct peer *p, const char *const argv[])
{
    int in[2], out[2];

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return -1;
    p->pid = fork();
    if (p->pid == 0)
        child(in[0], out[1], argv);
    (void)close(in[0]);
    (void)close(out[1]);
    p->in = in[1];
    p->port = read_port(out[0]);
    (void)close(out[0]);
    (void)snprintf(p->url, sizeof p->url, "http://127.0.0.1:%d", p->port);
    return p->port > 0 ? 0 : -1;
}

void
peer_stop(struct peer *p)
{
    struct deadline d = deadline_in(STOP_MS);

    if (p->pid <= 0)
        return;
    (void)close(p->in);
    while (waitpid(p->pid, NULL, WNOHANG) == 0) {
        if (deadline_passed(d))
            (void)kill(p->pid, SIGKILL);
        (void)usleep(10000);
    }
    p->pid = 0;
}

int
fake_gateway_start(struct peer *p, const char *script)
{
    const char *const argv[] = {SRCDIR "/tests/support/fake_gateway", script, NULL};

    return peer_start(p, argv);
}
