/* SPDX-License-Identifier: MIT */
#include "support/fake_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/packet.h"
#include "support/tmpdir.h"

#define ASK_MS 5000

static const char *
workspace(char out[PATH_MAX], const struct fake_keeper *k, uint64_t id)
{
    char name[32];

    (void)snprintf(name, sizeof name, "w-%016" PRIx64, id);
    return tmpdir_path(out, k->dir, name);
}

static void
make(const struct fake_keeper *k, uint64_t id, struct wire_reply *a)
{
    char path[PATH_MAX];

    atomic_fetch_add(&k->world->makes, 1);
    a->error = k->world->error;
    if (a->error == 0 && mkdir(workspace(path, k, id), 0700) < 0)
        a->flag = errno == EEXIST;
}

static int
root(const struct fake_keeper *k, uint64_t id, struct wire_reply *a)
{
    char path[PATH_MAX];
    int fd = -1;

    atomic_fetch_add(&k->world->roots, 1);
    a->error = k->world->error;
    if (a->error == 0 && !k->world->no_fd) {
        fd = open(workspace(path, k, id), O_PATH | O_DIRECTORY | O_CLOEXEC);
        a->error = fd < 0 ? errno : 0;
    }
    return fd;
}

static void
bind_kernel(const struct fake_keeper *k, const struct wire_request *q, struct wire_reply *a)
{
    struct fake_keeper_world *w = k->world;

    atomic_fetch_add(&w->binds, 1);
    if (w->no_kernel) {
        a->error = ENOENT;
        return;
    }
    if (strcmp(w->bound_kernel, q->kernel) == 0 && w->bound_workspace != q->workspace) {
        a->error = EBUSY;
        return;
    }
    memcpy(w->bound_kernel, q->kernel, sizeof w->bound_kernel);
    w->bound_workspace = q->workspace;
}

static void
status(const struct fake_keeper *k, const char *kernel, struct wire_reply *a)
{
    struct fake_keeper_world *w = k->world;
    int n = atomic_fetch_add(&w->statuses, 1);

    a->error = w->no_kernel ? ENOENT : 0;
    a->flag = strcmp(w->ended, kernel) == 0;
    a->counters = w->stepped && n > 0 ? w->later : w->counters;
}

static void
drop(const struct fake_keeper *k, uint64_t id, struct wire_reply *a)
{
    char path[PATH_MAX];

    atomic_fetch_add(&k->world->removes, 1);
    a->error = k->world->error;
    if (a->error == 0)
        tmpdir_remove(workspace(path, k, id));
}

static void
answer(const struct fake_keeper *k, int fd)
{
    struct fake_keeper_world *w = k->world;
    struct deadline d = deadline_in(ASK_MS);
    struct wire_request q;
    struct wire_reply a = {.version = WIRE_VERSION};
    struct err err = ERR_INIT;
    int n = 0, given = -1;

    if (packet_receive(fd, &q, sizeof q, NULL, 0, &n, d, &err) != 1)
        return;
    if (w->mute) {
        (void)poll(NULL, 0, ASK_MS);
        return;
    }
    if (q.op == WIRE_INFO) {
        struct wire_info i = w->info;

        atomic_fetch_add(&w->infos, 1);
        i.version = w->old ? WIRE_VERSION + 1 : WIRE_VERSION;
        i.op = WIRE_INFO;
        (void)packet_send(fd, &i, sizeof i, NULL, 0, d);
        return;
    }
    a.op = q.op;
    if (q.op == WIRE_MAKE)
        make(k, q.workspace, &a);
    else if (q.op == WIRE_ROOT)
        given = root(k, q.workspace, &a);
    else if (q.op == WIRE_BIND)
        bind_kernel(k, &q, &a);
    else if (q.op == WIRE_STATUS)
        status(k, q.kernel, &a);
    else if (q.op == WIRE_REMOVE)
        drop(k, q.workspace, &a);
    else if (q.op == WIRE_USAGE)
        a.error = w->error, a.value = 4096;
    (void)packet_send(fd, &a, sizeof a, &given, given >= 0, d);
    cleanup_close(&given);
}

__attribute__((noreturn)) static void
serve(const struct fake_keeper *k, int listener)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        int fd;

        (void)poll(&p, 1, -1);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        answer(k, fd);
        (void)close(fd);
    }
}

void
fake_keeper_again(struct fake_keeper *k)
{
    char path[PATH_MAX];
    struct err err = ERR_INIT;
    int listener;

    (void)unlink(tmpdir_path(path, k->dir, WIRE_FILES_SOCKET));
    listener = packet_listen(path, geteuid(), getegid(), 0600, &err);
    if (listener < 0)
        abort();
    k->pid = fork();
    if (k->pid == 0)
        serve(k, listener);
    (void)close(listener);
}

void
fake_keeper_start(struct fake_keeper *k)
{
    tmpdir_make(k->dir);
    k->world =
        mmap(NULL, sizeof *k->world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (k->world == MAP_FAILED)
        abort();
    k->world->info = (struct wire_info){
        .ready = 1, .tier = "host", .egress = "none", .disk = "image", .disk_bytes = 1 << 30};
    fake_keeper_again(k);
}

void
fake_keeper_stop(struct fake_keeper *k)
{
    if (k->pid > 0) {
        (void)kill(k->pid, SIGKILL);
        (void)waitpid(k->pid, NULL, 0);
    }
    k->pid = 0;
}

void
fake_keeper_done(struct fake_keeper *k)
{
    fake_keeper_stop(k);
    (void)munmap(k->world, sizeof *k->world);
    tmpdir_remove(k->dir);
}
