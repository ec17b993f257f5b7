/* SPDX-License-Identifier: MIT */
#include "workspace/workspace.h"

#include <string.h>

/*
 * The pattern is cut into tokens, and all positions in it that the path read so far can have led to
 * are followed at once: pattern length times path length steps, whatever the pattern.
 */
enum token_type { T_BYTE, T_ANY, T_CLASS, T_STAR, T_DEEP, T_DIRS };

struct token {
    enum token_type type;
    unsigned char byte;
    unsigned short from, to; /* of a class: the pattern's bytes between the brackets */
};

/* Where a class that begins behind '[' at `from` ends: the position of its ']', 0 if nowhere. */
static size_t
class_end(const char *p, size_t n, size_t from)
{
    size_t i = from;

    if (i < n && (p[i] == '!' || p[i] == '^'))
        i++;
    if (i < n && p[i] == ']') /* a ']' that comes first is a member */
        i++;
    while (i < n && p[i] != ']')
        i += p[i] == '\\' ? 2 : 1;
    return i < n ? i : 0;
}

static size_t
tokenise(const char *p, size_t n, struct token *t)
{
    size_t k = 0;

    for (size_t i = 0; i < n; k++) {
        size_t end = p[i] == '[' ? class_end(p, n, i + 1) : 0;

        if (p[i] == '*' && i + 1 < n && p[i + 1] == '*') {
            bool at_start = i == 0 || p[i - 1] == '/';

            while (i < n && p[i] == '*')
                i++;
            t[k].type = T_DEEP;
            if (at_start && i < n && p[i] == '/') {
                t[k].type = T_DIRS;
                i++;
            }
        } else if (p[i] == '*') {
            t[k].type = T_STAR;
            i++;
        } else if (p[i] == '?') {
            t[k].type = T_ANY;
            i++;
        } else if (end) {
            t[k] = (struct token){T_CLASS, 0, (unsigned short)(i + 1), (unsigned short)end};
            i = end + 1;
        } else {
            if (p[i] == '\\' && i + 1 < n)
                i++;
            t[k] = (struct token){.type = T_BYTE, .byte = (unsigned char)p[i]};
            i++;
        }
    }
    return k;
}

static unsigned char
class_byte(const char *p, size_t to, size_t *i)
{
    if (p[*i] == '\\' && *i + 1 < to)
        (*i)++;
    return (unsigned char)p[(*i)++];
}

static bool
class_matches(const char *p, size_t from, size_t to, unsigned char c)
{
    bool negated = p[from] == '!' || p[from] == '^';
    bool found = false;

    if (c == '/')
        return false;
    for (size_t i = from + (negated ? 1 : 0); i < to;) {
        unsigned char low = class_byte(p, to, &i), high = low;

        if (i + 1 < to && p[i] == '-') {
            i++;
            high = class_byte(p, to, &i);
        }
        if (low <= c && c <= high)
            found = true;
    }
    return found != negated;
}

/* Positions behind tokens that may match nothing. */
static void
skip_empty(const struct token *t, size_t n, bool at_start, bool *at)
{
    for (size_t j = 0; j < n; j++)
        if (at[j] &&
            (t[j].type == T_STAR || t[j].type == T_DEEP || (t[j].type == T_DIRS && at_start)))
            at[j + 1] = true;
}

/* From the positions `at` over the byte c to `next`; false when none is left. */
static bool
step(const char *pattern, const struct token *t, size_t n, const bool *at, unsigned char c,
     bool *next)
{
    bool alive = false;

    memset(next, 0, (n + 1) * sizeof(*next));
    for (size_t j = 0; j < n; j++) {
        if (!at[j])
            continue;
        switch (t[j].type) {
        case T_BYTE:
            next[j + 1] |= t[j].byte == c;
            break;
        case T_ANY:
            next[j + 1] |= c != '/';
            break;
        case T_CLASS:
            next[j + 1] |= class_matches(pattern, t[j].from, t[j].to, c);
            break;
        case T_STAR:
            next[j] |= c != '/';
            break;
        case T_DEEP:
        case T_DIRS:
            next[j] = true;
            break;
        }
        alive |= next[j] || next[j + 1];
    }
    return alive;
}

bool
glob_match(const char *pattern, size_t pn, const char *path, size_t n)
{
    struct token tokens[GLOB_MAX];
    bool rows[2][GLOB_MAX + 1] = {{false}};
    bool *at = rows[0], *next = rows[1];
    size_t k;

    if (pn > GLOB_MAX)
        return false;
    k = tokenise(pattern, pn, tokens);
    at[0] = true;
    skip_empty(tokens, k, true, at);
    for (size_t i = 0; i < n; i++) {
        bool *swap = at;

        if (!step(pattern, tokens, k, at, (unsigned char)path[i], next))
            return false;
        at = next;
        next = swap;
        skip_empty(tokens, k, path[i] == '/', at);
    }
    return at[k];
}
