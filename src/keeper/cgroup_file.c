/* SPDX-License-Identifier: MIT */
#include "keeper/cgroup_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/num.h"

#define REMOVE_TIMEOUT_MS 3000
#define REMOVE_PAUSE_MS 5
/* memory.stat is not among the files that are read. */
#define FILE_MAX 4096

static int
open_file(const char *dir, const char *file, int flags)
{
    char path[CGROUP_PATH_MAX + 64];

    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    return open(path, flags | O_CLOEXEC);
}

int
cgroup_file_write(const char *dir, const char *file, const char *value)
{
    _cleanup_close_ int fd = open_file(dir, file, O_WRONLY);
    size_t n = strlen(value);
    int saved;

    /* One write: the kernel takes it as a whole or not at all. */
    if (fd >= 0 && write(fd, value, n) == (ssize_t)n)
        return 0;
    saved = errno;
    if (fd >= 0)
        (void)close(steal_fd(&fd));
    errno = saved;
    return -1;
}

int
cgroup_file_write_number(const char *dir, const char *file, int64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    return cgroup_file_write(dir, file, text);
}

bool
cgroup_file_exists(const char *dir, const char *file)
{
    char path[CGROUP_PATH_MAX + 64];

    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    return access(path, F_OK) == 0;
}

int
cgroup_file_read(const char *dir, const char *file, char *ret, size_t n)
{
    _cleanup_close_ int fd = open_file(dir, file, O_RDONLY);
    size_t have = 0;

    if (fd < 0)
        return -1;
    while (have + 1 < n) {
        ssize_t got = read(fd, ret + have, n - 1 - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    ret[have] = '\0';
    return 0;
}

int64_t
cgroup_file_number(const char *dir, const char *file, const char *key)
{
    char text[FILE_MAX];
    int64_t value;

    if (cgroup_file_read(dir, file, text, sizeof text) < 0)
        return -1;
    for (const char *line = text; *line != '\0';
         line += strcspn(line, "\n"), line += *line != '\0') {
        size_t skip = key ? strlen(key) : 0;

        if (key && (strncmp(line, key, skip) != 0 || line[skip] != ' '))
            continue;
        skip += key != NULL;
        if (num_i64(line + skip, strcspn(line + skip, "\n"), 0, INT64_MAX, &value))
            return value;
        return -1;
    }
    return -1;
}

/* SIGKILL to every process listed in cgroup.procs, but for our own. */
static void
cgroup_file_kill(const char *dir)
{
    char text[FILE_MAX];

    if (cgroup_file_read(dir, "cgroup.procs", text, sizeof text) < 0)
        return;
    /* A number that is cut off at the end comes again in the next round. */
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        int64_t pid;

        if (num_i64(line, (size_t)(end - line), 2, INT32_MAX, &pid) && pid != getpid())
            (void)kill((pid_t)pid, SIGKILL);
    }
}

void
cgroup_file_remove(const char *dir)
{
    struct deadline d = deadline_in(REMOVE_TIMEOUT_MS);

    while (rmdir(dir) < 0 && errno == EBUSY && !deadline_passed(d)) {
        cgroup_file_kill(dir);
        (void)poll(NULL, 0, REMOVE_PAUSE_MS);
    }
}

/* The n-th word of a line, in ret; false if there is none or it does not fit. */
static bool
word(const char *line, int n, char *ret, size_t size)
{
    size_t len;

    for (; n > 0; n--) {
        line += strcspn(line, " \n");
        if (*line != ' ')
            return false;
        line++;
    }
    len = strcspn(line, " \n");
    if (len == 0 || len >= size)
        return false;
    memcpy(ret, line, len);
    ret[len] = '\0';
    return true;
}

/* Is `name` one of the words of a comma-separated list? */
static bool
listed(const char *list, size_t n, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i + len <= n; i++)
        if (strncmp(list + i, name, len) == 0 && (i == 0 || list[i - 1] == ',') &&
            (i + len == n || list[i + len] == ','))
            return true;
    return false;
}

/* "/a/b", our path in the hierarchy that has this controller (NULL: v2). */
static bool
own_path(const char *cgroup, const char *controller, char *ret, size_t size)
{
    for (const char *line = cgroup; *line != '\0';
         line += strcspn(line, "\n"), line += *line != '\0') {
        const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        size_t len = path ? strcspn(path + 1, "\n") : 0;
        bool mine;

        if (!path || len >= size)
            continue;
        mine = controller ? listed(list + 1, (size_t)(path - list - 1), controller)
                          : strncmp(line, "0::", 3) == 0;
        if (!mine)
            continue;
        memcpy(ret, path + 1, len);
        ret[len] = '\0';
        return true;
    }
    return false;
}

/* Our folder below a mount: in a container the mount shows a part of the hierarchy only (root). */
static void
place_below(const char *mount, const char *root, const char *own, char ret[CGROUP_PATH_MAX])
{
    size_t n = strlen(root);
    const char *rest = own;

    if (strcmp(root, "/") != 0 && strncmp(own, root, n) == 0 && (own[n] == '/' || own[n] == '\0'))
        rest = own + n;
    if (strcmp(rest, "/") == 0 || strncmp(rest, "/..", 3) == 0)
        rest = "";
    if (strlen(mount) + strlen(rest) < CGROUP_PATH_MAX)
        (void)snprintf(ret, CGROUP_PATH_MAX, "%s%s", mount, rest);
}

void
cgroup_place_parse(const char *mountinfo, const char *cgroup, struct cgroup_place *ret)
{
    static const char *const names[] = {"memory", "pids", "cpu"};
    char own[CGROUP_PATH_MAX], mount[CGROUP_PATH_MAX], root[CGROUP_PATH_MAX];
    char type[16], options[CGROUP_PATH_MAX];

    *ret = (struct cgroup_place){0};
    for (const char *line = mountinfo; *line != '\0';
         line += strcspn(line, "\n"), line += *line != '\0') {
        const char *dash = strstr(line, " - ");

        if (!dash || dash > line + strcspn(line, "\n") || !word(line, 3, root, sizeof root) ||
            !word(line, 4, mount, sizeof mount) || !word(dash + 3, 0, type, sizeof type) ||
            strchr(mount, '\\'))
            continue;
        if (strcmp(type, "cgroup2") == 0 && ret->v2[0] == '\0' &&
            own_path(cgroup, NULL, own, sizeof own)) {
            place_below(mount, root, own, ret->v2);
            ret->v2_top = strcmp(ret->v2, mount) == 0;
        }
        if (strcmp(type, "cgroup") != 0 || !word(dash + 3, 2, options, sizeof options))
            continue;
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
            if (ret->v1[c][0] == '\0' && listed(options, strlen(options), names[c]) &&
                own_path(cgroup, names[c], own, sizeof own))
                place_below(mount, root, own, ret->v1[c]);
    }
}
