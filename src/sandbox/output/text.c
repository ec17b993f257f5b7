/* SPDX-License-Identifier: MIT */
#include "sandbox/output/text.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

#define TAIL_FIRST 65536      /* first allocation of the ring */
#define BACK_ESCAPES 8        /* escape sequences that a backspace steps over */
#define BACK_ESCAPE_PARAMS 32 /* parameter bytes of one of them */

void
text_init(struct text *t, size_t max_bytes)
{
    t->max = max_bytes;
    buf_init(&t->head, max_bytes / 2);
    t->tail = NULL;
    t->tail_cap = 0;
    text_clear(t);
}

void
text_done(struct text *t)
{
    buf_done(&t->head);
    free(t->tail);
    t->tail = NULL;
    t->tail_cap = 0;
    text_clear(t);
}

void
text_clear(struct text *t)
{
    buf_clear(&t->head);
    t->tail_len = t->tail_pos = 0;
    t->left_out = 0;
    t->left_len = 0;
    t->right_off = TEXT_LINE_MAX;
    t->escape = TEXT_PLAIN;
}

/* Makes room in the ring for n more bytes, as far as its maximum allows. It has not wrapped as long
 * as it is smaller than that. */
static bool
grow_tail(struct text *t, size_t n, size_t max)
{
    size_t cap = t->tail_cap < TAIL_FIRST ? TAIL_FIRST : t->tail_cap * 2;
    char *p;

    if (cap < t->tail_len + n)
        cap = t->tail_len + n;
    if (cap > max)
        cap = max;
    p = realloc(t->tail, cap);
    if (!p)
        return false;
    t->tail = p;
    t->tail_cap = cap;
    return true;
}

static void
keep_tail(struct text *t, const char *p, size_t n)
{
    size_t max = t->max - t->max / 2, first;

    if (n > max) {
        t->left_out += n - max;
        p += n - max;
        n = max;
    }
    if (n == 0)
        return;
    if (t->tail_len + n > t->tail_cap && t->tail_cap < max && !grow_tail(t, n, max)) {
        t->left_out += n;
        return;
    }
    if (t->tail_pos == t->tail_cap)
        t->tail_pos = 0;
    first = t->tail_cap - t->tail_pos;
    if (first > n)
        first = n;
    memcpy(t->tail + t->tail_pos, p, first);
    memcpy(t->tail, p + first, n - first);
    t->tail_pos = n > first ? n - first : t->tail_pos + first;
    t->tail_len += n;
    if (t->tail_len > t->tail_cap) {
        t->left_out += t->tail_len - t->tail_cap;
        t->tail_len = t->tail_cap;
    }
}

/* Bytes that nothing can overwrite any more. */
static void
keep(struct text *t, const char *p, size_t n)
{
    size_t room = t->head.max - t->head.len;
    size_t k = n < room ? n : room;

    if (k > 0 && buf_append(&t->head, p, k) < 0) {
        t->left_out += k;
        buf_clear(&t->head);
        t->head.max = 0; /* no memory: from here on there is only the tail */
    }
    keep_tail(t, p + k, n - k);
}

static void
keep_left(struct text *t)
{
    keep(t, t->left, t->left_len);
    t->left_len = 0;
}

static void
keep_line(struct text *t)
{
    keep_left(t);
    keep(t, t->right + t->right_off, TEXT_LINE_MAX - t->right_off);
    t->right_off = TEXT_LINE_MAX;
    t->escape = TEXT_PLAIN;
}

static void
put(struct text *t, const char *p, size_t n)
{
    if (t->left_len + n > TEXT_LINE_MAX)
        keep_left(t);
    if (n > TEXT_LINE_MAX) {
        keep(t, p, n);
        return;
    }
    memcpy(t->left + t->left_len, p, n);
    t->left_len += n;
}

/* Text at the end of the line: nothing is overwritten. */
static void
append(struct text *t, const char *p, size_t n)
{
    const char *nl = memrchr(p, '\n', n);

    if (nl) {
        size_t k = (size_t)(nl - p) + 1;

        keep_left(t);
        keep(t, p, k);
        p += k;
        n -= k;
    }
    put(t, p, n);
}

static bool
is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The length of the character that begins at p, n > 0. */
static size_t
char_length(const char *p, size_t n)
{
    size_t k = 1;

    while (k < n && k < 4 && is_continuation(p[k]))
        k++;
    return k;
}

static bool
is_param(char c)
{
    return c >= 0x20 && c <= 0x3f;
}

static bool
is_final(char c)
{
    return c >= 0x40 && c <= 0x7e;
}

/* The length of the escape sequence that begins at p, n > 0 (ECMA-48 5.3, 5.4, 5.6). */
static size_t
escape_length(const char *p, size_t n)
{
    size_t i = 2;

    if (n < 2 || (unsigned char)p[1] < 0x20 || (unsigned char)p[1] > 0x7e)
        return 1;
    if (p[1] == '[') {
        while (i < n && is_param(p[i]))
            i++;
        return i < n && is_final(p[i]) ? i + 1 : i;
    }
    if (p[1] == ']') {
        while (i < n && p[i] != '\a' && p[i] != '\033')
            i++;
        if (i < n && p[i] == '\a')
            return i + 1;
        return i + 1 < n && p[i + 1] == '\\' ? i + 2 : i;
    }
    return 2;
}

/* What stands under the cursor is overwritten: one character, and the sequences before it. */
static void
drop_cell(struct text *t)
{
    while (t->right_off < TEXT_LINE_MAX && t->right[t->right_off] == '\033')
        t->right_off += escape_length(t->right + t->right_off, TEXT_LINE_MAX - t->right_off);
    if (t->right_off < TEXT_LINE_MAX)
        t->right_off += char_length(t->right + t->right_off, TEXT_LINE_MAX - t->right_off);
}

/* After the last byte of a control sequence: carries out ESC [ K, 0 K and 2 K. */
static void
erase_line(struct text *t)
{
    static const char *const erasers[] = {"\033[K", "\033[0K", "\033[2K"};

    for (size_t i = 0; i < sizeof(erasers) / sizeof(erasers[0]); i++) {
        size_t n = strlen(erasers[i]);

        if (t->left_len >= n && memcmp(t->left + t->left_len - n, erasers[i], n) == 0) {
            t->left_len -= n;
            t->right_off = TEXT_LINE_MAX;
            return;
        }
    }
}

/* Takes one byte of an escape sequence; false if the byte is not part of it. */
static bool
in_escape(struct text *t, char c)
{
    enum text_escape was = t->escape;

    t->escape = TEXT_PLAIN;
    switch (was) {
    case TEXT_PLAIN:
        if (c != '\033')
            return false;
        t->escape = TEXT_ESC;
        break;
    case TEXT_ESC:
        if (c == '[')
            t->escape = TEXT_CSI;
        else if (c == ']')
            t->escape = TEXT_OSC;
        else if (!is_param(c) && !is_final(c))
            return false;
        break;
    case TEXT_CSI:
        if (!is_param(c) && !is_final(c))
            return false;
        if (is_param(c))
            t->escape = TEXT_CSI;
        break;
    case TEXT_OSC:
        if (c == '\n')
            return false;
        if (c != '\a')
            t->escape = c == '\033' ? TEXT_OSC_ESC : TEXT_OSC;
        break;
    case TEXT_OSC_ESC:
        if (c != '\\')
            return false;
        break;
    }
    put(t, &c, 1);
    if (was == TEXT_CSI && c == 'K')
        erase_line(t);
    return true;
}

static bool
is_printable_ascii(char c)
{
    return c >= 0x20 && c <= 0x7e;
}

/* The usual case of overwriting: a byte over a byte, as many as there are. */
static size_t
overwrite_ascii(struct text *t, const char *p, size_t n)
{
    size_t i = 0;

    if (t->escape != TEXT_PLAIN)
        return 0;
    while (i < n && t->right_off < TEXT_LINE_MAX && t->left_len < TEXT_LINE_MAX &&
           is_printable_ascii(p[i]) && is_printable_ascii(t->right[t->right_off])) {
        t->left[t->left_len++] = p[i++];
        t->right_off++;
    }
    return i;
}

/* Text in the middle of the line, until its end is reached. Returns how many bytes were taken. */
static size_t
overwrite(struct text *t, const char *p, size_t n)
{
    size_t i = 0;

    while (i < n && t->right_off < TEXT_LINE_MAX) {
        size_t k = overwrite_ascii(t, p + i, n - i);

        i += k;
        if (k > 0)
            continue;
        if (in_escape(t, p[i])) {
            i++;
            continue;
        }
        if (p[i] == '\033')
            continue; /* begins another sequence: the last one is over */
        if (p[i] == '\n') {
            keep_line(t);
            keep(t, "\n", 1);
            i++;
            continue;
        }
        k = char_length(p + i, n - i);
        drop_cell(t);
        put(t, p + i, k);
        i += k;
    }
    return i;
}

/* Moves the last n bytes before the cursor behind it. */
static void
move_back(struct text *t, size_t n)
{
    if (n > t->right_off) {
        keep_left(t); /* a line too long to be kept whole */
        return;
    }
    t->right_off -= n;
    t->left_len -= n;
    memcpy(t->right + t->right_off, t->left + t->left_len, n);
}

static void
carriage_return(struct text *t)
{
    t->escape = TEXT_PLAIN;
    move_back(t, t->left_len);
}

/* The start of the control sequence that ends at i in the line's left part, or i. */
static size_t
escape_before(const struct text *t, size_t i)
{
    size_t j;

    if (i < 3 || !is_final(t->left[i - 1]))
        return i;
    j = i - 1;
    while (j > 0 && i - j < BACK_ESCAPE_PARAMS && is_param(t->left[j - 1]))
        j--;
    return j >= 2 && t->left[j - 1] == '[' && t->left[j - 2] == '\033' ? j - 2 : i;
}

static void
backspace(struct text *t)
{
    size_t i = t->left_len;

    t->escape = TEXT_PLAIN;
    for (int k = 0; k < BACK_ESCAPES; k++)
        i = escape_before(t, i);
    if (i == 0)
        return;
    i--;
    while (i > 0 && is_continuation(t->left[i]))
        i--;
    move_back(t, t->left_len - i);
}

void
text_add(struct text *t, const char *p, size_t n)
{
    const char *end = p + n, *cr = NULL, *bs = NULL;

    while (p < end) {
        const char *stop;

        if (!cr || cr < p) {
            cr = memchr(p, '\r', (size_t)(end - p));
            cr = cr ? cr : end;
        }
        if (!bs || bs < p) {
            bs = memchr(p, '\b', (size_t)(end - p));
            bs = bs ? bs : end;
        }
        stop = cr < bs ? cr : bs;
        if (p < stop)
            p += overwrite(t, p, (size_t)(stop - p));
        if (p < stop)
            append(t, p, (size_t)(stop - p));
        p = stop;
        if (p == end)
            break;
        if (*p == '\r')
            carriage_return(t);
        else
            backspace(t);
        p++;
    }
}

/* Bytes before the first whole character of the tail, which begins at `start` of its ring. */
static size_t
tail_skip(const struct text *t, size_t start)
{
    char first[8];
    size_t n = t->tail_len < sizeof(first) ? t->tail_len : sizeof(first);

    for (size_t i = 0; i < n; i++)
        first[i] = t->tail[(start + i) % t->tail_len];
    return utf8_next(first, n, 0);
}

/* Head and tail are joined in the head's own memory: they are as large as all that is kept. */
char *
text_take(struct text *t, size_t *ret_len, bool *ret_cut)
{
    size_t from = 0, start;
    char *p = NULL;

    keep_line(t);
    _cleanup_buf_ struct buf out = t->head;
    buf_init(&t->head, t->head.max);
    out.max = t->max + TEXT_MARKER_MAX;
    start = t->tail_len < t->tail_cap ? 0 : t->tail_pos % (t->tail_cap ? t->tail_cap : 1);
    *ret_cut = t->left_out > 0;
    if (*ret_cut) {
        size_t head_len = utf8_cut(buf_str(&out), out.len);
        from = t->tail_len > 0 ? tail_skip(t, start) : 0;
        t->left_out += out.len - head_len + from;
        out.len = head_len;
        (void)buf_printf(&out, "\n… [%" PRIu64 " bytes left out] …\n", t->left_out);
    }
    if (start + from < t->tail_len)
        (void)buf_append(&out, t->tail + start + from, t->tail_len - start - from);
    if (start > 0) {
        size_t wrapped = start + from > t->tail_len ? start + from - t->tail_len : 0;
        (void)buf_append(&out, t->tail + wrapped, start - wrapped);
    }
    if (!out.failed)
        p = buf_steal(&out, ret_len);
    text_done(t);
    return p;
}
