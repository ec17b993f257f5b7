/* SPDX-License-Identifier: MIT */

/*
 * Another process of the service, for tests: manager_child DIR VERB ARGS.
 *   open ID        "new HANDLE" or "old HANDLE", or "error SLUG"
 *   exec ID CODE   "REASON LOST OUT", or "error SLUG"
 *   keep ID CODE   the same, and keeps all files of the session
 *   files ID MS    holds a lease that long, then counts as work
 *   put ID PATH    "half" in the middle of an upload, in which it stays
 *   close ID       "done" or "deferred", or "error SLUG"
 *   sweep
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "support/manager_fixture.h"

static int
result(const char *slug, const char *text)
{
    if (slug)
        (void)printf("error %s\n", slug);
    else
        (void)printf("%s\n", text);
    return slug ? 1 : 0;
}

static int
do_open(struct fixture *f, const char *id)
{
    struct session s = {0};
    bool created = false;
    char text[HANDLE_MAX + 8];
    const char *slug = fixture_open(f, f->m, id, &s, &created);

    (void)snprintf(text, sizeof text, "%s %s", created ? "new" : "old", s.handle);
    session_done(&s);
    return result(slug, text);
}

static int
do_exec(struct fixture *f, const char *id, const char *code, bool keep)
{
    struct exec_outcome o;
    char text[256] = "";
    const char *slug =
        keep ? fixture_keep(f, f->m, id, code, &o) : fixture_exec(f, f->m, id, code, &o);

    if (!slug) {
        (void)snprintf(text, sizeof text, "%s %d %s", exec_reason_name(o.row.reason),
                       o.session.state_lost, o.result.out ? o.result.out : "");
        exec_outcome_done(&o);
    }
    return result(slug, text);
}

static int
do_files(struct fixture *f, const char *id, const char *ms)
{
    struct file_lease l;
    struct err err = ERR_INIT;

    if (manager_files_begin(f->m, &f->ann, id, &l, &err) < 0)
        return result(err.slug ? err.slug : err_name(err.code), NULL);
    (void)printf("held\n");
    (void)fflush(stdout);
    (void)poll(NULL, 0, (int)strtol(ms, NULL, 10));
    manager_files_end(f->m, &l, true);
    return 0;
}

static int
do_put(struct fixture *f, const char *id, const char *path)
{
    struct file_lease l;
    struct file_upload *u = NULL;
    struct err err = ERR_INIT;

    if (manager_files_begin(f->m, &f->ann, id, &l, &err) < 0 ||
        manager_upload_begin(f->m, &l, path, strlen(path), &u, &err) < 0 ||
        manager_upload_write(u, "new and", 7, &err) < 0)
        return result(err.slug ? err.slug : err_name(err.code), NULL);
    (void)printf("half\n");
    (void)fflush(stdout);
    (void)poll(NULL, 0, 20000);
    manager_upload_abort(u);
    manager_files_end(f->m, &l, false);
    return 0;
}

static int
do_close(struct fixture *f, const char *id)
{
    bool deferred = false;
    const char *slug = fixture_close(f, f->m, id, &deferred);

    return result(slug, deferred ? "deferred" : "done");
}

static int
do_sweep(struct fixture *f)
{
    struct sweep_report r;
    struct err err = ERR_INIT;

    return manager_sweep(f->m, deadline_in(10000), &r, &err) < 0;
}

static int
verb(struct fixture *f, int argc, char **argv)
{
    const char *v = argv[2], *a = argc > 3 ? argv[3] : "", *b = argc > 4 ? argv[4] : "";

    if (strcmp(v, "open") == 0)
        return do_open(f, a);
    if (strcmp(v, "exec") == 0)
        return do_exec(f, a, b, false);
    if (strcmp(v, "keep") == 0)
        return do_exec(f, a, b, true);
    if (strcmp(v, "files") == 0)
        return do_files(f, a, b);
    if (strcmp(v, "put") == 0)
        return do_put(f, a, b);
    if (strcmp(v, "close") == 0)
        return do_close(f, a);
    return strcmp(v, "sweep") == 0 ? do_sweep(f) : 2;
}

int
main(int argc, char **argv)
{
    struct fixture f;
    int rc;

    if (argc < 3)
        return 2;
    log_init("manager_child", LOG_LEVEL_ERROR, false);
    fixture_options(&f, argv[1]);
    f.world = fake_world(f.kernels);
    f.m = fixture_other(&f);
    rc = verb(&f, argc, argv);
    manager_free(f.m);
    fake_world_unmap(f.world);
    return rc;
}
