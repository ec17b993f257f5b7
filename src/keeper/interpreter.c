/* SPDX-License-Identifier: MIT */
#include "keeper/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "keeper/confine.h"
#include "keeper/filter.h"

#define ENVIRONMENT_MAX 16
#define ARGUMENTS_MAX 5

/* Pointers into their own memory. */
struct environment {
    char text[ENVIRONMENT_MAX][PATH_MAX];
    char *list[ENVIRONMENT_MAX + 1];
    size_t n;
};

static const char *
home_of(const struct box_spec *s)
{
    return s->o->tier == TIER_CONTAINER ? s->home : BOX_HOME;
}

/* Every descriptor at its number, all others closed by the exec: not earlier, as the table may be
 * shared with init. */
static int
place_descriptors(const struct box_spec *s, struct err *err)
{
    int from[INTERPRETER_FDS] = {-1, s->out, s->err};
    int high[INTERPRETER_FDS];

    memcpy(from + BOX_LISTENER_FD, s->listeners, sizeof s->listeners);
    for (int i = 0; i < INTERPRETER_FDS; i++) {
        high[i] = from[i] >= 0 ? fcntl(from[i], F_DUPFD_CLOEXEC, INTERPRETER_FDS)
                               : open("/dev/null", O_RDWR | O_CLOEXEC);
        if (high[i] >= 0 && high[i] < INTERPRETER_FDS)
            high[i] = fcntl(high[i], F_DUPFD_CLOEXEC, INTERPRETER_FDS);
        if (high[i] < 0)
            return err_sys(err, ERR_INTERNAL, errno, "cannot place a descriptor of the kernel");
    }
    for (int i = 0; i < INTERPRETER_FDS; i++)
        if (dup2(high[i], i) < 0)
            return err_sys(err, ERR_INTERNAL, errno, "cannot place a descriptor of the kernel");
    if (close_range(INTERPRETER_FDS, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot keep descriptors from the kernel");
    return 0;
}

/* The connection file, and in the container tier what else a home of its own has. */
static int
fill_home(const struct box_spec *s, struct err *err)
{
    static const char *const folders[] = {".runtime", "tmp"};
    size_t n = s->o->tier == TIER_CONTAINER ? 2 : 1; /* elsewhere /tmp is the session's own */
    char path[PATH_MAX];
    _cleanup_close_ int fd = -1;

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", home_of(s), folders[i]);
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make %s", path);
    }
    if (s->connection_len == 0)
        return 0;
    (void)snprintf(path, sizeof path, "%s/" BOX_CONNECTION, home_of(s));
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, s->connection, s->connection_len) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot write the connection file");
    return 0;
}

static void __attribute__((format(printf, 2, 3))) put(struct environment *e, const char *fmt, ...)
{
    va_list ap;

    if (e->n == ENVIRONMENT_MAX)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(e->text[e->n], sizeof e->text[e->n], fmt, ap);
    va_end(ap);
    e->list[e->n] = e->text[e->n];
    e->list[++e->n] = NULL;
}

static void
fill_environment(struct environment *e, const struct box_spec *s)
{
    const char *home = home_of(s), *slash = strrchr(s->o->python, '/');
    int folder = slash ? (int)(slash - s->o->python) : 0;

    e->n = 0;
    if (strncmp(s->o->python, "/usr/bin/", 9) == 0)
        folder = 0;
    /* A virtual environment's own programs first. */
    put(e, "PATH=%.*s%s/usr/local/bin:/usr/bin:/bin", folder, s->o->python, folder > 0 ? ":" : "");
    put(e, "HOME=%s", home);
    put(e, "LANG=C.UTF-8");
    put(e, "IPYTHONDIR=%s/.ipython", home);
    put(e, "JUPYTER_RUNTIME_DIR=%s/.runtime", home);
    put(e, "JUPYTER_DATA_DIR=%s/.data", home);
    put(e, "MPLCONFIGDIR=%s/.matplotlib", home);
    put(e, "HUSK_FDS=%d", BOX_LISTENER_FD);
    if (s->o->egress_proxy[0] != '\0') {
        put(e, "http_proxy=%s", s->o->egress_proxy);
        put(e, "https_proxy=%s", s->o->egress_proxy);
        put(e, "no_proxy=localhost,127.0.0.1");
    }
    if (s->o->tier != TIER_CONTAINER)
        return;
    put(e, "HUSK_WORKSPACE=%s/workspace", home);
    put(e, "TMPDIR=%s/tmp", home);
    /* the container's files know neither the uid nor that pip cannot break anything here */
    put(e, "LOGNAME=session");
    put(e, "PIP_BREAK_SYSTEM_PACKAGES=1");
}

static int
enter_workspace(const struct box_spec *s, struct err *err)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s", BOX_WORKSPACE);
    if (s->o->tier == TIER_CONTAINER)
        (void)snprintf(path, sizeof path, "%s/workspace", s->home);
    if (chdir(path) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot enter %s", path);
    return 0;
}

int
interpreter_exec(const struct box_spec *s, int *notify_fd, struct err *err)
{
    static struct environment environment; /* too large for the stack */
    struct filter_options filter = {.inet =
                                        s->o->tier != TIER_CONTAINER || s->o->egress != EGRESS_NONE,
                                    .ipc = s->o->tier != TIER_CONTAINER,
                                    .network = box_own_network(s->o),
                                    .notify = box_is_supervised(s->o)};
    char script[PATH_MAX], connection[PATH_MAX];
    const char *kernel[ARGUMENTS_MAX] = {s->o->python, script, "-f", connection, NULL};
    const char *const *argv = s->argv ? s->argv : kernel;

    (void)snprintf(script, sizeof script, "%s/husk_kernel.py",
                   s->o->tier == TIER_CONTAINER ? s->o->library : BOX_LIBRARY);
    (void)snprintf(connection, sizeof connection, "%s/" BOX_CONNECTION, home_of(s));
    fill_environment(&environment, s);
    if (fill_home(s, err) < 0 || enter_workspace(s, err) < 0 || place_descriptors(s, err) < 0)
        return -1;
    if (confine_files(s, err) < 0 || filter_load(&filter, notify_fd, err) < 0 ||
        confine_limits(s->o, err) < 0)
        return -1;
    (void)execve(argv[0], (char *const *)(uintptr_t)argv, environment.list);
    return err_sys(err, ERR_UNAVAILABLE, errno,
                   "cannot run %s in the sandbox, which shows /usr and SANDBOX_KERNEL_PATHS",
                   argv[0]);
}
