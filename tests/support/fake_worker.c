/* SPDX-License-Identifier: MIT */

/*
 * Stands for husk-worker and husk-reaper in test_master: keeps the master's contract and does what
 * one byte of a connection says:
 *
 *   p  answers "PID GENERATION SLOT"
 *   x  ends with status 3
 *   s  answers a space at once and as p does when another byte comes, SIGTERM or not
 *   i  answers as p does and then never ends by itself
 *   h  the same, having published a deadline that is 4.8 s past
 *
 * $HUSK_FAKE_CRASHES names a file: while it is there a worker appends a byte to it and ends with 1.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/num.h"
#include "base/sig.h"
#include "super/scoreboard.h"

#define SLOW_MS 20000 /* how long the client of s may take */

static int
env_int(const char *name)
{
    const char *s = getenv(name);
    uint64_t v = 0;

    if (!s || !num_u64(s, strlen(s), INT32_MAX, &v))
        exit(7);
    return (int)v;
}

static void
answer(int fd)
{
    char text[100];
    int n = snprintf(text, sizeof text, "%d %s %s", (int)getpid(), getenv("HUSK_GENERATION"),
                     getenv("HUSK_SLOT"));

    (void)fd_write_all(fd, text, (size_t)n);
}

static void
publish_past_deadline(void)
{
    struct scoreboard *b = NULL;

    if (scoreboard_attach(getenv("HUSK_FAKE_SCOREBOARD"), true, &b, NULL) < 0)
        exit(4);
    score_set(scoreboard_slot(b, env_int("HUSK_SLOT")), SLOT_WORKING,
              (struct deadline){clock_mono_ms() - 4800});
    scoreboard_free(b);
}

static void
hang(int fd)
{
    (void)signal(SIGTERM, SIG_IGN);
    answer(fd);
    (void)close(fd);
    for (;;)
        (void)pause();
}

static void
serve(int fd)
{
    char what = 0;

    (void)fd_set_nonblock(fd, false);
    if (fd_read_all(fd, &what, 1) < 0)
        return;
    if (what == 'x')
        exit(3);
    if (what == 's') {
        (void)fd_write_all(fd, " ", 1);
        (void)fd_wait(fd, POLLIN, deadline_in(SLOW_MS));
    }
    if (what == 'h')
        publish_past_deadline();
    if (what == 'h' || what == 'i')
        hang(fd);
    answer(fd);
}

static void
crash_if_told(void)
{
    const char *path = getenv("HUSK_FAKE_CRASHES");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    (void)fd_write_all(fd, "x", 1);
    exit(1);
}

int
main(void)
{
    const int signals[] = {SIGTERM, SIGINT, 0};
    struct pollfd p[2];

    if (!getenv("HUSK_SLOT")) { /* the reaper */
        for (;;)
            (void)pause();
    }
    crash_if_told();
    p[0] = (struct pollfd){.fd = sig_pipe(signals), .events = POLLIN};
    p[1] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    if (write(env_int("HUSK_READY_FD"), "r", 1) != 1)
        return 5;
    for (;;) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return 6;
        if (p[0].revents)
            return 0;
        int fd = accept(STDIN_FILENO, NULL, NULL);
        if (fd < 0)
            continue;
        serve(fd);
        (void)close(fd);
    }
}
