/* SPDX-License-Identifier: MIT */
#include "base/sig.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

/* The write end; a handler has no other way to know it. */
static int handler_fd = -1;

static void
on_signal(int sig)
{
    int saved = errno;
    unsigned char byte = (unsigned char)sig;

    /* A full pipe has enough to wake the reader; a repeat of a signal is no news. */
    if (write(handler_fd, &byte, 1) < 0) {
        /* nothing a handler could do */
    }
    errno = saved;
}

int
sig_pipe(const int *signals)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    handler_fd = fds[1];
    (void)sigfillset(&sa.sa_mask);
    for (const int *s = signals; *s != 0; s++)
        if (sigaction(*s, &sa, NULL) < 0)
            return -1;
    return fds[0];
}

int
sig_next(int pipe_fd)
{
    unsigned char byte;
    ssize_t r;

    do
        r = read(pipe_fd, &byte, 1);
    while (r < 0 && errno == EINTR);
    return r == 1 ? byte : 0;
}

void
sig_ignore_pipe(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
}

void
sig_reset_all(void)
{
    struct sigaction sa = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        (void)sigaction(s, &sa, NULL); /* KILL, STOP and libc's own refuse */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}
