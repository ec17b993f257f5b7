/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_ERR_H
#define HUSK_BASE_ERR_H

/*
 * What went wrong, as a decision for the caller (code), as a stable name for clients (slug, or
 * NULL: then the code alone decides), and as a sentence for a person (msg).  Functions take a
 * struct err last, write it only when they fail, and return a negative value then.  Slugs are
 * string literals from model/problem.h; they are borrowed for ever.
 */
enum err_code {
    ERR_NONE = 0,
    ERR_INVALID,     /* the caller's input is wrong */
    ERR_DENIED,      /* the caller may not */
    ERR_NOT_FOUND,   /* no such thing (or not this caller's) */
    ERR_CONFLICT,    /* its state forbids it now */
    ERR_LIMIT,       /* a named maximum is exceeded */
    ERR_TIMEOUT,     /* the deadline passed */
    ERR_ABORTED,     /* the caller went away, or asked to stop */
    ERR_UNAVAILABLE, /* something we need is not there now; worth another try later */
    ERR_UNCERTAIN,   /* it may or may not have happened */
    ERR_NOMEM,       /* an input-sized allocation failed */
    ERR_INTERNAL     /* a fault of ours or of the machine */
};

struct err {
    enum err_code code;
    int sys_errno;     /* 0 if none */
    int retry_after_s; /* a hint for Retry-After, 0 if none */
    const char *slug;  /* stable API code, or NULL */
    char msg[400];
};

#define ERR_INIT                                                                                   \
    {                                                                                              \
        ERR_NONE, 0, 0, 0,                                                                         \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Fills *err (which may be NULL) and returns -1, so that `return err_set(err, …)` reads well. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with a stable slug from model/problem.h (a literal, borrowed). Returns -1. */
int err_slug(struct err *err, enum err_code code, const char *slug, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same with an errno, whose text is appended to the message. Returns -1. */
int err_sys(struct err *err, enum err_code code, int sys_errno, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "context: " in front of the message of an error that is already set. Returns -1. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A short lower-case name of a code, for logs. Never NULL. */
const char *err_name(enum err_code code);

#endif
