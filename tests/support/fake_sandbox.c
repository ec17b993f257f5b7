/* SPDX-License-Identifier: MIT */
#include "support/fake_sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "support/tmpdir.h"

struct fake {
    struct sandbox sb;
    char dir[PATH_MAX];
    struct fake_world *w;
};

struct fake_world *
fake_world(const char *dir)
{
    char path[PATH_MAX];
    int fd = open(tmpdir_path(path, dir, "world"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *p;

    if (fd < 0 || ftruncate(fd, sizeof(struct fake_world)) < 0)
        abort();
    p = mmap(NULL, sizeof(struct fake_world), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        abort();
    (void)close(fd);
    return p;
}

void
fake_world_unmap(struct fake_world *w)
{
    (void)munmap(w, sizeof *w);
}

/* One of the times that it shall go wrong? */
static bool
strikes(atomic_int *left)
{
    int n = atomic_load(left);

    while (n > 0)
        if (atomic_compare_exchange_weak(left, &n, n - 1))
            return true;
    return n < 0;
}

static void
raise_to(atomic_int *most, int n)
{
    int old = atomic_load(most);

    while (old < n && !atomic_compare_exchange_weak(most, &old, n))
        continue;
}

static const char *
runtime_path(char out[PATH_MAX], const char *dir, const char *handle)
{
    char name[HANDLE_MAX + 3];

    (void)snprintf(name, sizeof name, "k-%s", handle);
    return tmpdir_path(out, dir, name);
}

static bool
lives(const char *dir, const char *handle)
{
    char path[PATH_MAX];

    return access(runtime_path(path, dir, handle), F_OK) == 0;
}

void
fake_stray(const char *dir, const char *handle)
{
    struct fake_world *w = fake_world(dir);
    char path[PATH_MAX];
    int fd = open(runtime_path(path, dir, handle), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        abort();
    (void)close(fd);
    raise_to(&w->most_living, atomic_fetch_add(&w->living, 1) + 1);
    fake_world_unmap(w);
}

void
fake_kill(const char *dir, const char *handle)
{
    struct fake_world *w = fake_world(dir);
    char path[PATH_MAX];

    if (unlink(runtime_path(path, dir, handle)) == 0)
        atomic_fetch_sub(&w->living, 1);
    fake_world_unmap(w);
}

void
fake_death(struct fake_world *w, enum fake_death at)
{
    int expected = (int)at;

    if (atomic_compare_exchange_strong(&w->die_at, &expected, FAKE_DIES_NOWHERE))
        (void)raise(SIGKILL);
}

static int
fake_open(struct sandbox *sb, const char *key, struct runtime_made *ret, struct deadline d,
          struct err *err)
{
    struct fake *f = (struct fake *)sb;
    char handle[ID_UUID_SIZE];

    (void)key;

    (void)poll(NULL, 0, deadline_poll_ms(d, atomic_load(&f->w->open_ms)));
    atomic_fetch_add(&f->w->opens, 1);
    if (strikes(&f->w->fail_opens))
        return err_slug(err, ERR_UNAVAILABLE, "start_failed", "told to fail");
    id_uuid4(handle);
    memcpy(ret->handle, handle, sizeof handle);
    id_uuid4(ret->kernel_session);
    fake_stray(f->dir, handle);
    fake_death(f->w, FAKE_DIES_STARTED);
    if (strikes(&f->w->unanswered_opens)) {
        ret->handle[0] = '\0';
        return err_slug(err, ERR_UNCERTAIN, "gateway_unavailable", "told to be silent");
    }
    if (strikes(&f->w->uncertain_opens))
        return err_set(err, ERR_UNCERTAIN, "told to be uncertain");
    return 0;
}

static int
fake_bind(struct sandbox *sb, const struct runtime_ref *rt, const char *dir, struct deadline d,
          struct err *err)
{
    struct fake *f = (struct fake *)sb;

    atomic_fetch_add(&f->w->binds, 1);
    if (atomic_load(&f->w->bind_ms) > deadline_poll_ms(d, INT_MAX)) {
        (void)poll(NULL, 0, deadline_poll_ms(d, INT_MAX));
        return err_set(err, ERR_TIMEOUT, "told to hang");
    }
    (void)poll(NULL, 0, atomic_load(&f->w->bind_ms));
    if (strikes(&f->w->fail_binds))
        return err_set(err, ERR_UNAVAILABLE, "told to fail");
    if (!lives(f->dir, rt->handle))
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "gone");
    return access(dir, F_OK) == 0 ? 0 : err_set(err, ERR_INTERNAL, "no workspace %s", dir);
}

static void
say(const struct exec_hooks *hooks, const char *text)
{
    const struct exec_event ev = {.type = EVENT_STDOUT, .p = text, .n = strlen(text)};

    hooks->event(hooks->ctx, &ev);
}

static void
sleeps(struct fake *f, const struct exec_hooks *hooks, int ms, bool mute, const char *handle,
       struct execution_result *ret)
{
    struct deadline d = deadline_in(ms);

    while (!deadline_passed(d)) {
        enum hook_verdict v = hooks->tick(hooks->ctx);

        if (v != HOOK_GO_ON && !mute) {
            ret->reason = v == HOOK_INTERRUPT ? REASON_INTERRUPTED : REASON_CLIENT_GONE;
            return;
        }
        if (!lives(f->dir, handle)) {
            ret->reason = REASON_KERNEL_DIED;
            ret->runtime_invalidated = true;
            return;
        }
        (void)poll(NULL, 0, deadline_poll_ms(d, 20));
    }
    ret->reason = REASON_COMPLETED;
}

static void
run(struct fake *f, const struct runtime_ref *rt, const char *code, const struct exec_hooks *hooks,
    struct execution_result *ret)
{
    const char *arg = strchr(code, ' ') ? strchr(code, ' ') + 1 : "";

    ret->reason = REASON_COMPLETED;
    if (strncmp(code, "print", 5) == 0) {
        int i = atomic_fetch_add(&f->w->order_n, 1);

        if (i < 64)
            atomic_store(&f->w->order[i], (int)strtol(arg, NULL, 10));
        say(hooks, arg);
        ret->out = xstrdup(arg);
        ret->out_len = strlen(arg);
        ret->bytes_stdout = (int64_t)ret->out_len;
    } else if (strncmp(code, "sleep", 5) == 0 || strncmp(code, "mute", 4) == 0) {
        sleeps(f, hooks, (int)strtol(arg, NULL, 10), code[0] == 'm', rt->handle, ret);
    } else if (strcmp(code, "die") == 0) {
        fake_kill(f->dir, rt->handle);
        ret->reason = REASON_KERNEL_DIED;
        ret->runtime_invalidated = true;
    } else {
        ret->reason = REASON_EXCEPTION;
        ret->error_name = xstrdup("ValueError");
    }
}

static int
fake_warm(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d, struct err *err)
{
    struct fake *f = (struct fake *)sb;

    (void)d;
    if (!lives(f->dir, rt->handle))
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "gone");
    atomic_fetch_add(&f->w->warms, 1);
    return 0;
}

static int
fake_exec(struct sandbox *sb, const struct runtime_ref *rt, const struct execution_request *req,
          const struct exec_hooks *hooks, struct execution_result *ret, struct err *err)
{
    struct fake *f = (struct fake *)sb;
    _cleanup_free_ char *code = xstrndup(req->code, req->code_len);

    if (strikes(&f->w->gone_execs) || !lives(f->dir, rt->handle))
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "gone");
    if (rt->dir && fake_bind(sb, rt, rt->dir, deadline_in(rt->dir_ms), err) < 0)
        return -1;
    if (strikes(&f->w->fail_execs))
        return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable", "told to fail");
    if (strikes(&f->w->silent_execs))
        return err_set(err, ERR_TIMEOUT, "told to be silent");
    atomic_fetch_add(&f->w->execs, 1);
    raise_to(&f->w->most_running, atomic_fetch_add(&f->w->running, 1) + 1);
    execution_result_init(ret);
    run(f, rt, code, hooks, ret);
    atomic_fetch_sub(&f->w->running, 1);
    ret->ok = ret->reason == REASON_COMPLETED;
    ret->exit_code = ret->ok ? 0 : ret->reason == REASON_EXCEPTION ? 1 : -1;
    return 0;
}

static int
fake_interrupt(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d, struct err *err)
{
    struct fake *f = (struct fake *)sb;

    (void)rt;
    (void)d;
    atomic_fetch_add(&f->w->interrupts, 1);
    return strikes(&f->w->stubborn) ? err_set(err, ERR_TIMEOUT, "told to go on") : 0;
}

static int
fake_close(struct sandbox *sb, const char *handle, struct deadline d, struct err *err)
{
    struct fake *f = (struct fake *)sb;

    (void)poll(NULL, 0, deadline_poll_ms(d, atomic_load(&f->w->close_ms)));
    atomic_fetch_add(&f->w->closes, 1);
    if (strikes(&f->w->fail_closes))
        return err_set(err, ERR_UNCERTAIN, "told to be uncertain");
    fake_death(f->w, FAKE_DIES_CLOSING);
    fake_kill(f->dir, handle);
    fake_death(f->w, FAKE_DIES_CLOSED);
    return 0;
}

static int
fake_alive(struct sandbox *sb, const char *handle, struct deadline d, enum alive *ret,
           struct err *err)
{
    struct fake *f = (struct fake *)sb;

    (void)poll(NULL, 0, deadline_poll_ms(d, atomic_load(&f->w->alive_ms)));
    *ret = ALIVE_UNKNOWN;
    if (strikes(&f->w->fail_alives))
        return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable", "told to fail");
    *ret = lives(f->dir, handle) ? ALIVE_YES : ALIVE_NO;
    return 0;
}

static int
each(const char *dir, sandbox_list_cb cb, void *ctx)
{
    DIR *dp = opendir(dir);
    struct dirent *e;
    int n = 0;

    if (!dp)
        abort();
    for (e = readdir(dp); e; e = readdir(dp)) {
        if (strncmp(e->d_name, "k-", 2) != 0)
            continue;
        struct runtime_seen seen = {.handle = e->d_name + 2, .running = true};

        n++;
        if (cb && cb(ctx, &seen) != 0)
            break;
    }
    (void)closedir(dp);
    return n;
}

int
fake_count(const char *dir)
{
    return each(dir, NULL, NULL);
}

static int
kill_one(void *ctx, const struct runtime_seen *seen)
{
    fake_kill(ctx, seen->handle);
    return 0;
}

void
fake_kill_all(const char *dir)
{
    (void)each(dir, kill_one, (void *)(uintptr_t)dir);
}

static int
fake_list(struct sandbox *sb, sandbox_list_cb cb, void *ctx, struct deadline d, struct err *err)
{
    struct fake *f = (struct fake *)sb;

    (void)d;
    if (strikes(&f->w->fail_lists))
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error", "told to fail");
    if (!strikes(&f->w->cut_lists)) /* else: a wrong answer, as if there were none */
        (void)each(f->dir, cb, ctx);
    return 0;
}

static int
fake_ping(struct sandbox *sb, struct deadline d, struct err *err)
{
    (void)sb;
    (void)d;
    (void)err;
    return 0;
}

static void
fake_free(struct sandbox *sb)
{
    fake_world_unmap(((struct fake *)sb)->w);
    free(sb);
}

static const struct sandbox_ops fake_ops = {.name = "fake",
                                            .open = fake_open,
                                            .bind = fake_bind,
                                            .warm = fake_warm,
                                            .exec = fake_exec,
                                            .interrupt = fake_interrupt,
                                            .close = fake_close,
                                            .alive = fake_alive,
                                            .list = fake_list,
                                            .ping = fake_ping,
                                            .free = fake_free};

struct sandbox *
fake_sandbox_new(const char *dir)
{
    struct fake *f = xcalloc(1, sizeof *f);

    f->sb.ops = &fake_ops;
    f->w = fake_world(dir);
    (void)snprintf(f->dir, sizeof f->dir, "%s", dir);
    return &f->sb;
}
