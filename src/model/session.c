/* SPDX-License-Identifier: MIT */
#include "model/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/id.h"

static const char *const states[] = {
    [SESSION_OPENING] = "opening", [SESSION_READY] = "ready", [SESSION_BUSY] = "busy",
    [SESSION_CLOSING] = "closing", [SESSION_COLD] = "cold",
};

static const char *const ends[] = {
    [SESSION_END_CLOSED] = "closed",
    [SESSION_END_EXPIRED] = "expired",
    [SESSION_END_EVICTED] = "evicted",
    [SESSION_END_LOST] = "lost",
};

static const char *const members[BINDINGS] = {
    [BIND_SESSION] = "session_id",
    [BIND_CONVERSATION] = "conversation_id",
    [BIND_WORKFLOW_RUN] = "workflow_run_id",
};

const char *
session_binding_member(enum session_binding how)
{
    return members[how];
}

const char *
session_state_name(enum session_state s)
{
    return states[s];
}

int
session_state_parse(const char *s, enum session_state *ret)
{
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (strcmp(states[i], s) == 0) {
            *ret = (enum session_state)i;
            return 1;
        }
    return 0;
}

const char *
session_end_name(enum session_end e)
{
    return ends[e];
}

/* A session_id is taken as it is; a derived name must not be one somebody can ask for. */
static int
own_name(const char *value, size_t n, char *ret, struct err *err)
{
    static const char *const derived[] = {"c-", "w-", "ch-", "wh-"};
    if (!id_in_alphabet(value, n, 1, SESSION_NAME_MAX))
        return err_slug(err, ERR_INVALID, "bad_session_id",
                        "session_id must be 1 to %d characters of A-Z, a-z, 0-9, _ and -",
                        SESSION_NAME_MAX);
    for (size_t i = 0; i < sizeof(derived) / sizeof(derived[0]); i++) {
        size_t len = strlen(derived[i]);
        if (n >= len && memcmp(value, derived[i], len) == 0)
            return err_slug(err, ERR_INVALID, "bad_session_id",
                            "session_id must not begin with \"%s\": such names belong to "
                            "conversations and workflow runs",
                            derived[i]);
    }
    memcpy(ret, value, n);
    ret[n] = '\0';
    return 0;
}

static int
bound_name(char letter, const char *member, const char *value, size_t n, char *ret, struct err *err)
{
    if (!n || n > SESSION_BINDING_MAX)
        return err_slug(err, ERR_INVALID, "bad_value", "%s must be 1 to %d bytes long, not %zu",
                        member, SESSION_BINDING_MAX, n);
    if (memchr(value, '\0', n))
        return err_slug(err, ERR_INVALID, "bad_value", "%s must not hold a NUL", member);
    if (id_in_alphabet(value, n, 1, SESSION_NAME_MAX - 2)) {
        snprintf(ret, SESSION_NAME_MAX + 1, "%c-%.*s", letter, (int)n, value);
        return 0;
    }
    char hex[SHA256_HEX_SIZE];
    sha256_hex_of(value, n, hex);
    snprintf(ret, SESSION_NAME_MAX + 1, "%ch-%s", letter, hex);
    return 0;
}

int
session_name_of(enum session_binding how, const char *value, size_t n,
                char ret[SESSION_NAME_MAX + 1], struct err *err)
{
    switch (how) {
    case BIND_SESSION:
        return own_name(value, n, ret, err);
    case BIND_CONVERSATION:
        return bound_name('c', members[how], value, n, ret, err);
    case BIND_WORKFLOW_RUN:
        return bound_name('w', members[how], value, n, ret, err);
    case BIND_NONE:
    case BINDINGS:
        break;
    }
    id_random_hex(ret, 16);
    return 0;
}

void
session_done(struct session *s)
{
    free(s->labels);
    *s = (struct session){0};
}
