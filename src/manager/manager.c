/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/lock.h"
#include "base/log.h"
#include "manager/internal.h"
#include "store/session_store.h"

/* A caller without a deadline of its own is not served for ever either. */
#define PROMISE_MAX_MS 3600000

/* One more that sessions may name; sb is taken, also when it fails. */
static int
manager_add_backend(struct manager *m, const char *name, struct sandbox *sb, struct err *err)
{
    size_t n = strlen(name);

    if (n >= sizeof m->backends[0].name || m->n_backends >= BACKENDS_MAX) {
        sb->ops->free(sb);
        return err_slug(err, ERR_INVALID, "unknown_backend",
                        "a backend's name is too long, or it is one too many");
    }
    memcpy(m->backends[m->n_backends].name, name, n + 1);
    m->backends[m->n_backends++].sb = sb;
    return 0;
}

int
manager_backend(struct manager *m, const char *name, struct sandbox **ret, struct err *err)
{
    for (int i = 0; i < m->n_backends; i++) {
        if (strcmp(m->backends[i].name, name) == 0) {
            *ret = m->backends[i].sb;
            return 0;
        }
    }
    return err_slug(err, ERR_INVALID, "unknown_backend", "no backend called %.64s is set up here",
                    name);
}

int
manager_backend_of(struct manager *m, const struct session *s, struct sandbox **ret,
                   struct err *err)
{
    if (manager_backend(m, s->backend, ret, NULL) == 0)
        return 0;
    return err_slug(err, ERR_UNAVAILABLE, "unavailable",
                    "the session is on the backend %s, which is not set up here any more: it can "
                    "be deleted, or used again once that is",
                    s->backend);
}

int
manager_reread(struct manager *m, struct session *s, struct err *err)
{
    int64_t sid = s->sid;
    int r;

    session_done(s);
    s->sid = sid;
    r = session_store_by_sid(m->db, sid, s, err);
    if (r == 0)
        return err_slug(err, ERR_NOT_FOUND, "session_not_found", "the session is gone");
    return r < 0 ? -1 : 0;
}

int
manager_reread_usable(struct manager *m, struct session *s, struct err *err)
{
    if (manager_reread(m, s, err) < 0)
        return -1;
    if (s->state == SESSION_CLOSING)
        return err_slug(err, ERR_CONFLICT, "session_closing", "the session is being closed");
    return 0;
}

enum sandbox_files
manager_files_of(struct manager *m, const char *backend)
{
    struct sandbox *sb = NULL;

    return manager_backend(m, backend, &sb, NULL) == 0 ? sb->files
                                                       : sandbox_files_of(backend, &m->o.sandbox);
}

int64_t
manager_max_of(struct manager *m, const char *backend)
{
    return manager_files_of(m, backend) == FILES_KEYED ? m->o.max_keyed : 0;
}

struct backend_slot *
manager_pool_backend(struct manager *m)
{
    for (int i = 0; i < m->n_backends; i++)
        if (m->backends[i].sb->files != FILES_KEYED)
            return &m->backends[i];
    return NULL;
}

const char *
caller_owner(const struct caller *c)
{
    return c->admin ? NULL : c->owner;
}

struct db_now
manager_now(const struct manager *m)
{
    const struct manager_clock *c = m->o.clock;

    return (struct db_now){c ? c->wall_ms : clock_wall_ms(), c ? c->boot_ms : clock_boot_ms(),
                           m->boot_id};
}

void
manager_promise(struct manager *m, int64_t ms)
{
    if (m->o.publish_deadline)
        m->o.publish_deadline(m->o.ctx, deadline_in(ms));
}

void
manager_promise_by(struct manager *m, struct deadline d, int64_t more_ms)
{
    int64_t left = deadline_left_ms(d);

    manager_promise(m, (left > PROMISE_MAX_MS ? PROMISE_MAX_MS : left) + more_ms);
}

int64_t
manager_clamp_ttl(const struct manager *m, int64_t ttl_ms)
{
    if (ttl_ms <= 0)
        ttl_ms = m->o.default_ttl_ms;
    if (ttl_ms < 1000)
        ttl_ms = 1000;
    return ttl_ms > m->o.max_ttl_ms ? m->o.max_ttl_ms : ttl_ms;
}

struct deadline
manager_end_deadline(const struct manager *m)
{
    return deadline_in(m->o.sandbox.http_timeout_ms);
}

int
manager_state_dir(const char *path, struct err *err)
{
    _cleanup_free_ char *parent = NULL;
    const char *slash = strrchr(path, '/');
    struct stat st;

    if (stat(path, &st) == 0)
        return 0;
    if (fd_mkdirs(path, 0770, err) < 0)
        return -1;
    if (geteuid() != 0 || !slash || slash == path)
        return 0;
    parent = xstrndup(path, (size_t)(slash - path));
    if (stat(parent, &st) < 0 || chown(path, st.st_uid, st.st_gid) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot give %s its owner", path);
    return 0;
}

static int
open_all(struct manager *m, struct err *err)
{
    struct db_now now;
    int r;

    if (m->o.clock)
        (void)snprintf(m->boot_id, sizeof m->boot_id, "%s", m->o.clock->boot_id);
    else
        clock_boot_id(m->boot_id);
    if (db_open(m->o.db_path, 0, &m->db, err) < 0 || db_ping(m->db, err) < 0)
        return -1;
    m->lock_fd = lock_open(m->o.lock_path, err);
    if (m->lock_fd < 0 || manager_state_dir(m->o.spool_dir, err) < 0)
        return -1;
    if (m->o.traces_dir) {
        if (manager_state_dir(m->o.traces_dir, err) < 0)
            return -1;
        m->traces_fd = open(m->o.traces_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (m->traces_fd < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "the folder %s", m->o.traces_dir);
    }
    now = manager_now(m);
    r = session_store_same_boot(m->db, &now, err);
    if (r == 0)
        settle_before_reboot(m);
    if (r >= 0)
        r = session_store_reboot(m->db, &now, err);
    if (r > 0)
        log_info("the machine was restarted: sessions are cold and keep their files");
    return r < 0 ? -1 : 0;
}

int
manager_new_with(const struct manager_options *o, struct sandbox *sb, struct manager **ret,
                 struct err *err)
{
    struct manager *m = xcalloc(1, sizeof *m);

    m->o = *o;
    m->place = (struct workspace_place){.dir = o->workspaces_dir, .keeper = o->keeper_dir};
    m->lock_fd = -1;
    /* Measured at start-up already: a sweep that runs once a process would never do it else. */
    m->optimized_ms = clock_mono_ms();
    m->artifacts_fd = -1;
    m->traces_fd = -1;
    m->artifacts_looked_ms = INT64_MIN / 2;
    if (manager_add_backend(m, o->backend, sb, err) < 0 || open_all(m, err) < 0) {
        manager_free(m);
        return -1;
    }
    isolation_init(m);
    *ret = m;
    return 0;
}

int
manager_new(const struct manager_options *o, struct manager **ret, struct err *err)
{
    struct sandbox *sb = NULL;
    struct manager *m = NULL;

    if (sandbox_new(o->backend, &o->sandbox, &sb, err) < 0 || manager_new_with(o, sb, &m, err) < 0)
        return -1;
    for (int i = 0; i < BACKENDS_MAX - 1 && o->more_backends[i]; i++) {
        if (sandbox_new(o->more_backends[i], &o->sandbox, &sb, err) < 0 ||
            manager_add_backend(m, o->more_backends[i], sb, err) < 0) {
            manager_free(m);
            return -1;
        }
    }
    *ret = m;
    return 0;
}

void
manager_free(struct manager *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_backends; i++)
        m->backends[i].sb->ops->free(m->backends[i].sb);
    db_close(m->db);
    cleanup_close(&m->lock_fd);
    cleanup_close(&m->artifacts_fd);
    cleanup_close(&m->traces_fd);
    free(m);
}

int
manager_ready(struct manager *m, struct deadline d, struct err *err)
{
    if (db_ping(m->db, err) < 0 || (isolation_wanted(m) && isolation_check(m, true, err) < 0))
        return -1;
    for (int i = 0; i < m->n_backends; i++) {
        struct sandbox *sb = m->backends[i].sb;

        if (sb->ops->ping(sb, d, err) < 0)
            return err_wrap(err, "backend %s", m->backends[i].name);
    }
    return 0;
}

int
manager_idle_fds(struct manager *m, struct pollfd *fds, int max)
{
    int n = 0;

    for (int i = 0; i < m->n_backends && n < max; i++) {
        struct sandbox *sb = m->backends[i].sb;

        if (sb->ops->idle_fds)
            n += sb->ops->idle_fds(sb, fds + n, max - n);
    }
    return n;
}

void
manager_idle(struct manager *m)
{
    for (int i = 0; i < m->n_backends; i++) {
        struct sandbox *sb = m->backends[i].sb;

        if (sb->ops->idle)
            sb->ops->idle(sb);
    }
}
