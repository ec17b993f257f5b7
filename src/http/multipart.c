/* SPDX-License-Identifier: MIT */
#include "http/multipart.h"

#include "base/cleanup.h"
#include "http/http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char form_data[] = "multipart/form-data";

static int
bad(struct err *err, const char *what)
{
    return err_slug(err, ERR_INVALID, "bad_multipart", "the multipart body: %s", what);
}

/* One parameter of a header's value, as "; name=value" or "; name=\"value\"". */
struct parameter {
    const char *name;
    size_t name_len;
    char value[MULTIPART_FILENAME_MAX + 1];
    size_t len;
};

static const char *
blanks(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p;
}

static bool
token_char(unsigned char c)
{
    return c > ' ' && c < 0x7f && strchr("()<>@,;:\\\"[]?=", c) == NULL;
}

/* The inside of a quoted string up to its quote; NULL if it does not end or is too long. A
 * backslash quotes only what needs it: browsers send paths with plain ones. */
static const char *
quoted(const char *p, const char *end, struct parameter *ret)
{
    for (; p < end && *p != '"'; p++) {
        if (*p == '\\' && end - p > 1 && (p[1] == '"' || p[1] == '\\'))
            p++;
        if (*p == '\0' || ret->len >= sizeof(ret->value) - 1)
            return NULL;
        ret->value[ret->len++] = *p;
    }
    return p < end ? p + 1 : NULL;
}

/* The next parameter of [*p, end): 1, 0 none is left, -1 it cannot be read. */
static int
next_parameter(const char **at, const char *end, struct parameter *ret)
{
    const char *p = blanks(*at, end);

    memset(ret, 0, sizeof(*ret));
    if (p < end && *p == ';')
        p = blanks(p + 1, end);
    else if (p < end)
        return -1;
    if (p == end)
        return 0;
    ret->name = p;
    while (p < end && token_char((unsigned char)*p))
        p++;
    ret->name_len = (size_t)(p - ret->name);
    p = blanks(p, end);
    if (ret->name_len == 0 || p == end || *p != '=')
        return -1;
    p = blanks(p + 1, end);
    if (p < end && *p == '"') {
        p = quoted(p + 1, end, ret);
    } else {
        for (; p < end && *p != ';' && *p != ' ' && *p != '\t'; p++) {
            if (*p == '\0' || ret->len >= sizeof(ret->value) - 1)
                return -1;
            ret->value[ret->len++] = *p;
        }
    }
    *at = p;
    return p != NULL ? 1 : -1;
}

static bool
is_named(const struct parameter *a, const char *name)
{
    return a->name_len == strlen(name) && strncasecmp(a->name, name, a->name_len) == 0;
}

bool
multipart_is_form(const char *type)
{
    size_t n = sizeof(form_data) - 1;

    return type != NULL && strncasecmp(type, form_data, n) == 0 && strchr(" \t;", type[n]) != NULL;
}

/* bchars of RFC 2046 5.1.1; the last one is no space. */
static bool
boundary_ok(const struct parameter *a)
{
    if (a->len == 0 || a->len > MULTIPART_BOUNDARY_MAX || a->value[a->len - 1] == ' ')
        return false;
    for (size_t i = 0; i < a->len; i++) {
        unsigned char c = (unsigned char)a->value[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');

        if (!alnum && strchr("'()+_,-./:=? ", c) == NULL)
            return false;
    }
    return true;
}

static int
find_boundary(struct multipart *m, const char *type, struct err *err)
{
    const char *p = type + sizeof(form_data) - 1, *end = type + strlen(type);
    struct parameter a;
    int rc;

    while ((rc = next_parameter(&p, end, &a)) > 0) {
        if (!is_named(&a, "boundary"))
            continue;
        if (!boundary_ok(&a))
            return bad(err, "its boundary is not 1 to 70 of the characters RFC 2046 allows");
        memcpy(m->delimiter, "\r\n--", 4);
        memcpy(m->delimiter + 4, a.value, a.len);
        m->delimiter_len = a.len + 4;
        return 0;
    }
    return bad(err, rc < 0 ? "its Content-Type cannot be read"
                           : "its Content-Type has no boundary parameter");
}

/* Behind a delimiter: *ret_last when it is the closing one, else m->at is moved to the headers. */
static int
pass_delimiter(struct multipart *m, bool *ret_last, struct err *err)
{
    const char *p = m->p + m->at, *end = m->p + m->n;

    *ret_last = end - p >= 2 && memcmp(p, "--", 2) == 0;
    if (*ret_last)
        return 0;
    p = blanks(p, end); /* transport padding */
    if (end - p < 2 || memcmp(p, "\r\n", 2) != 0)
        return bad(err, "a boundary is not followed by the end of its line");
    m->at = (size_t)(p + 2 - m->p);
    return 0;
}

int
multipart_begin(struct multipart *m, const char *type, const char *body, size_t n, struct err *err)
{
    const char *dash, *found;
    size_t dash_len;

    memset(m, 0, sizeof(*m));
    m->p = body;
    m->n = n;
    if (!multipart_is_form(type))
        return bad(err, "its Content-Type is not multipart/form-data");
    if (find_boundary(m, type, err) < 0)
        return -1;
    dash = m->delimiter + 2; /* at the very beginning there is no line to end */
    dash_len = m->delimiter_len - 2;
    if (n >= dash_len && memcmp(body, dash, dash_len) == 0) {
        m->at = dash_len;
    } else {
        found = n > 0 ? memmem(body, n, m->delimiter, m->delimiter_len) : NULL;
        if (found == NULL)
            return bad(err, "its boundary is nowhere in it");
        m->at = (size_t)(found - body) + m->delimiter_len;
    }
    return pass_delimiter(m, &m->ended, err);
}

/* RFC 8187: UTF-8'language'percent-encoded. */
static int
extended_filename(const struct parameter *a, struct multipart_part *ret, struct err *err)
{
    const char *lang = strncasecmp(a->value, "UTF-8'", 6) == 0 ? strchr(a->value + 6, '\'') : NULL;
    _cleanup_free_ char *name = NULL;
    size_t n;

    if (lang == NULL || !http_percent_decode(lang + 1, strlen(lang + 1), false, &name, &n) ||
        memchr(name, '\0', n) != NULL)
        return bad(err, "a filename* cannot be read");
    memcpy(ret->filename, name, n + 1); /* not longer than what it was decoded from */
    ret->has_filename = true;
    return 0;
}

static int
disposition(const char *p, const char *end, struct multipart_part *ret, struct err *err)
{
    static const char want[] = "form-data";
    size_t n = sizeof(want) - 1;
    bool extended = false;
    struct parameter a;
    int rc;

    if ((size_t)(end - p) < n || strncasecmp(p, want, n) != 0)
        return bad(err, "a part's Content-Disposition is not form-data");
    p += n;
    while ((rc = next_parameter(&p, end, &a)) > 0) {
        if (is_named(&a, "name")) {
            if (a.len == 0 || a.len > MULTIPART_NAME_MAX || ret->name[0] != '\0')
                return bad(err, "a part's name is given twice, empty or over 64 bytes");
            memcpy(ret->name, a.value, a.len + 1);
        } else if (is_named(&a, "filename*")) {
            extended = true;
            if (extended_filename(&a, ret, err) < 0)
                return -1;
        } else if (is_named(&a, "filename") && !extended) {
            memcpy(ret->filename, a.value, a.len + 1);
            ret->has_filename = true;
        }
    }
    return rc < 0 ? bad(err, "a part's Content-Disposition cannot be read") : 0;
}

/* The value behind "name:" when the line is that header, else NULL. */
static const char *
value_of(const char *line, const char *end, const char *name)
{
    size_t n = strlen(name);

    if ((size_t)(end - line) <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
        return NULL;
    return blanks(line + n + 1, end);
}

static bool
is_as_sent(const char *v, const char *end)
{
    static const char *const plain[] = {"binary", "8bit", "7bit"};

    for (size_t i = 0; i < 3; i++)
        if ((size_t)(end - v) == strlen(plain[i]) &&
            strncasecmp(v, plain[i], strlen(plain[i])) == 0)
            return true;
    return false;
}

static int
header_line(const char *p, const char *end, struct multipart_part *ret, struct err *err)
{
    const char *v = value_of(p, end, "content-disposition");

    if (v != NULL)
        return disposition(v, end, ret, err);
    v = value_of(p, end, "content-transfer-encoding"); /* RFC 7578 4.7: nobody should send it */
    if (v != NULL && !is_as_sent(v, end))
        return bad(err, "a Content-Transfer-Encoding other than binary, 8bit or 7bit");
    if (memchr(p, ':', (size_t)(end - p)) == NULL || *p == ' ' || *p == '\t')
        return bad(err, "a part's header cannot be read");
    return 0;
}

/* The lines up to the empty one; m->at is moved behind it. */
static int
headers(struct multipart *m, struct multipart_part *ret, struct err *err)
{
    size_t left = m->n - m->at;
    const char *p = m->p + m->at;
    const char *end = p + (left < MULTIPART_HEADERS_MAX ? left : MULTIPART_HEADERS_MAX);

    for (;;) {
        const char *eol = memmem(p, (size_t)(end - p), "\r\n", 2);

        if (eol == NULL)
            return bad(err, left > MULTIPART_HEADERS_MAX ? "a part's headers are over 4096 bytes"
                                                         : "it ends in a part's headers");
        if (eol == p)
            break;
        if (header_line(p, eol, ret, err) < 0)
            return -1;
        p = eol + 2;
    }
    m->at = (size_t)(p + 2 - m->p);
    return ret->name[0] != '\0' ? 0 : bad(err, "a part has no name");
}

int
multipart_next(struct multipart *m, struct multipart_part *ret, struct err *err)
{
    const char *end;

    memset(ret, 0, sizeof(*ret));
    if (m->ended)
        return 0;
    if (++m->parts > MULTIPART_PARTS_MAX)
        return bad(err, "it has more than 16 parts");
    if (headers(m, ret, err) < 0)
        return -1;
    ret->p = m->p + m->at;
    /* An empty part may end with the line that ended its headers. */
    if (m->n - m->at >= m->delimiter_len - 2 &&
        memcmp(ret->p, m->delimiter + 2, m->delimiter_len - 2) == 0) {
        end = ret->p;
        m->at += m->delimiter_len - 2;
    } else {
        end = memmem(ret->p, m->n - m->at, m->delimiter, m->delimiter_len);
        if (end == NULL)
            return bad(err, "it ends before its closing boundary");
        m->at = (size_t)(end - m->p) + m->delimiter_len;
    }
    ret->n = (size_t)(end - ret->p);
    return pass_delimiter(m, &m->ended, err) < 0 ? -1 : 1;
}
