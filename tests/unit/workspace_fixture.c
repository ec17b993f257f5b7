/* SPDX-License-Identifier: MIT */
#include "unit/workspace_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/tmpdir.h"

int
fixture_setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    char secret[PATH_MAX];
    bool existed;
    FILE *file;

    tmpdir_make(f->base);
    if (workspace_create(f->base, FIXTURE_ID, &existed, NULL) < 0 || existed ||
        workspace_dir(f->base, FIXTURE_ID, f->dir, sizeof(f->dir)) < 0 ||
        workspace_open(f->base, FIXTURE_ID, &f->w, NULL) < 0)
        return -1;
    (void)tmpdir_path(f->outside, f->base, "outside");
    if (mkdir(f->outside, 0777) < 0)
        return -1;
    file = fopen(tmpdir_path(secret, f->outside, "secret"), "w");
    if (!file)
        return -1;
    (void)fputs("secret", file);
    (void)fclose(file);
    *state = f;
    return 0;
}

int
fixture_teardown(void **state)
{
    struct fixture *f = *state;

    workspace_close(&f->w);
    tmpdir_remove(f->base);
    free(f);
    return 0;
}

const char *
fixture_path(const struct fixture *f, const char *name)
{
    static char ring[4][PATH_MAX];
    static unsigned next;

    return tmpdir_path(ring[next++ % 4], f->dir, name);
}

void
fixture_write(const struct fixture *f, const char *name, const char *text)
{
    FILE *file = fopen(fixture_path(f, name), "w");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

const char *
fixture_read(const struct fixture *f, const char *name)
{
    static char text[4096];
    _cleanup_close_ int fd = open(fixture_path(f, name), O_RDONLY | O_NOFOLLOW);
    ssize_t n;

    if (fd < 0)
        return "(none)";
    n = read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

int
fixture_put(const struct fixture *f, const char *name, const char *text, struct err *err)
{
    struct upload *u;

    if (upload_begin(&f->w, name, strlen(name), &u, err) < 0)
        return -1;
    if (upload_write(u, text, strlen(text), err) < 0) {
        upload_abort(u);
        return -1;
    }
    return upload_commit(u, UPLOAD_REPLACE, NULL, NULL, NULL, err);
}

int
fixture_count(const char *path)
{
    DIR *d = opendir(path);
    int n = -2; /* . and .. */

    if (!d)
        return -1;
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}
