/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_CLEANUP_H
#define HUSK_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Scope-bound clean-up: initialise the variable where it is declared, hand out with steal_*. */

static inline void
cleanup_free(void *p)
{
    free(*(void **)p);
}

static inline void
cleanup_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static inline void
cleanup_fclose(FILE **f)
{
    if (*f)
        (void)fclose(*f);
}

static inline void
cleanup_closedir(DIR **d)
{
    if (*d)
        (void)closedir(*d);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)

/* Moves a pointer or descriptor out of a tagged variable. */
#define steal_ptr(p)                                                                               \
    ({                                                                                             \
        __typeof__(p) stolen_ = (p);                                                               \
        (p) = NULL;                                                                                \
        stolen_;                                                                                   \
    })

static inline int
steal_fd(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

/* Small fixed allocations: abort when there is no memory (the master starts another worker). */
void *xcalloc(size_t n, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);

#endif
