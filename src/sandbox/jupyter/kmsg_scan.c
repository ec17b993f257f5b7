/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/kmsg_scan.h"

#include <string.h>

#include "base/digest.h"
#include "base/utf8.h"
#include "sandbox/jupyter/kmsg_private.h"

static const struct {
    const char *name;
    int depth;
    enum kmsg_scan_member parent, member;
} members[] = {
    {"header", 1, MEMBER_OTHER, MEMBER_HEADER},
    {"parent_header", 1, MEMBER_OTHER, MEMBER_PARENT},
    {"content", 1, MEMBER_OTHER, MEMBER_CONTENT},
    {"msg_type", 2, MEMBER_HEADER, MEMBER_MSG_TYPE},
    {"session", 2, MEMBER_HEADER, MEMBER_SESSION},
    {"msg_id", 2, MEMBER_PARENT, MEMBER_MSG_ID},
    {"name", 2, MEMBER_CONTENT, MEMBER_NAME},
    {"text", 2, MEMBER_CONTENT, MEMBER_TEXT},
};

static enum kmsg_scan_member
find_member(const struct kmsg_scan *s)
{
    enum kmsg_scan_member parent = s->depth == 2 ? s->at1 : MEMBER_OTHER;

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (members[i].depth == s->depth && members[i].parent == parent &&
            strcmp(members[i].name, s->word) == 0)
            return members[i].member;
    return MEMBER_OTHER;
}

/* Everything but the text buffer, which needs no clearing. */
void
kmsg_scan_begin(struct kmsg_scan *s)
{
    const struct kmsg_handler *handler = s->handler;
    struct buf *keep = s->keep;

    memset(s, 0, offsetof(struct kmsg_scan, out));
    s->handler = handler;
    s->keep = keep;
}

bool
kmsg_scan_whole(const struct kmsg_scan *s)
{
    return s->items[0] == 1 && s->depth == 0 && s->state == SCAN_STRUCTURE && !s->bad;
}

static void
keep_bytes(struct kmsg_scan *s, const char *p, size_t n)
{
    if (n > 0 && !s->streaming && s->skip_depth == 0)
        (void)buf_append(s->keep, p, n);
}

static bool
in_array(const struct kmsg_scan *s)
{
    return s->arrays >> s->depth & 1;
}

/* ---- characters of a string ---- */

void
kmsg_scan_emit(const struct kmsg_scan *s, const char *p, size_t n)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(3 * n);

    if (n == 0)
        return;
    if (utf8_valid(p, n))
        s->handler->text(s->handler->ctx, &s->head, s->stream, p, n);
    else if (utf8_scrub(&clean, p, n) == 0)
        s->handler->text(s->handler->ctx, &s->head, s->stream, clean.data, clean.len);
}

/* What escapes decode to is valid: only bytes that came bare have to be checked. */
static void
flush_text(struct kmsg_scan *s, bool end)
{
    size_t k = end ? s->out_len : utf8_cut(s->out, s->out_len);

    if (s->bare_high)
        kmsg_scan_emit(s, s->out, k);
    else if (k > 0)
        s->handler->text(s->handler->ctx, &s->head, s->stream, s->out, k);
    memmove(s->out, s->out + k, s->out_len - k);
    s->out_len -= k;
    s->bare_high = s->bare_high && s->out_len > 0;
}

static void
sink_word(struct kmsg_scan *s, const char *p, size_t n)
{
    size_t k = SCAN_WORD_MAX - s->word_len;

    k = n < k ? n : k;
    memcpy(s->word + s->word_len, p, k);
    s->word_len += k;
}

/* A decoded character; out has room for one more than SCAN_OUT_MAX. */
static void
sink_char(struct kmsg_scan *s, const char *p, size_t n)
{
    if (s->sink == SINK_WORD) {
        sink_word(s, p, n);
        return;
    }
    memcpy(s->out + s->out_len, p, n);
    s->out_len += n;
    if (s->out_len >= SCAN_OUT_MAX)
        flush_text(s, false);
}

static void
sink_code_point(struct kmsg_scan *s, unsigned c)
{
    char u[4];
    size_t n;

    if (c < 0x80) {
        u[0] = (char)c;
        n = 1;
    } else if (c < 0x800) {
        u[0] = (char)(0xc0 | c >> 6);
        u[1] = (char)(0x80 | (c & 0x3f));
        n = 2;
    } else if (c < 0x10000) {
        u[0] = (char)(0xe0 | c >> 12);
        u[1] = (char)(0x80 | (c >> 6 & 0x3f));
        u[2] = (char)(0x80 | (c & 0x3f));
        n = 3;
    } else {
        u[0] = (char)(0xf0 | c >> 18);
        u[1] = (char)(0x80 | (c >> 12 & 0x3f));
        u[2] = (char)(0x80 | (c >> 6 & 0x3f));
        u[3] = (char)(0x80 | (c & 0x3f));
        n = 4;
    }
    sink_char(s, u, n);
}

/* A high surrogate whose partner did not come stands for nothing. */
static void
end_surrogate(struct kmsg_scan *s)
{
    if (s->high) {
        s->high = 0;
        sink_code_point(s, 0xfffd);
    }
}

static void
sink_utf16(struct kmsg_scan *s, unsigned c)
{
    if (c >= 0xdc00 && c <= 0xdfff && s->high) {
        c = 0x10000 + ((s->high - 0xd800) << 10) + (c - 0xdc00);
        s->high = 0;
        sink_code_point(s, c);
        return;
    }
    end_surrogate(s);
    if (c >= 0xd800 && c <= 0xdbff)
        s->high = c;
    else
        sink_code_point(s, c >= 0xdc00 && c <= 0xdfff ? 0xfffd : c);
}

/* A whole escape: two bytes, or six of \uXXXX. */
static void
sink_escape(struct kmsg_scan *s, const char *e)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at;
    unsigned c = 0;

    if (s->sink == SINK_NONE)
        return;
    if (e[1] == 'u') {
        for (int i = 2; i < 6; i++) {
            int d = hex_value(e[i]);

            s->bad = s->bad || d < 0;
            c = c << 4 | (unsigned)(d < 0 ? 0 : d);
        }
        sink_utf16(s, c);
        return;
    }
    at = e[1] ? strchr(from, e[1]) : NULL;
    s->bad = s->bad || !at;
    sink_utf16(s, at ? (unsigned)to[at - from] : 0xfffd);
}

/* ---- strings ---- */

#define EACH_BYTE(c) (UINT64_C(0x0101010101010101) * (c))

static bool
has_byte(uint64_t word, unsigned char c)
{
    uint64_t x = word ^ EACH_BYTE(c);

    return ((x - EACH_BYTE(0x01)) & ~x & EACH_BYTE(0x80)) != 0;
}

/* A stream's text up to a quote, an escape or as far as there is room: eight bytes at a time, since
 * most of what a kernel ever sends goes this way.  Returns how many it took. */
static size_t
copy_text(struct kmsg_scan *s, const char *p, size_t n)
{
    size_t room = SCAN_OUT_MAX - s->out_len, i = 0;
    char *out = s->out + s->out_len;
    uint64_t high = 0;

    n = n < room ? n : room;
    while (i + 8 <= n) {
        uint64_t word;

        memcpy(&word, p + i, 8);
        if (has_byte(word, '"') || has_byte(word, '\\'))
            break;
        memcpy(out + i, &word, 8);
        high |= word;
        i += 8;
    }
    for (; i < n && p[i] != '"' && p[i] != '\\'; i++) {
        out[i] = p[i];
        high |= (unsigned char)p[i];
    }
    s->bare_high = s->bare_high || (high & EACH_BYTE(0x80)) != 0;
    s->out_len += i;
    if (s->out_len == SCAN_OUT_MAX)
        flush_text(s, false);
    return i;
}

/* The raw bytes of a string, cut when it is to be cut; a unit is kept whole or not at all. */
static void
keep_string(struct kmsg_scan *s, const char *p, size_t n, bool unit)
{
    if (s->trim && !s->is_key) {
        size_t room = s->string_max - s->string_len;

        if (n > room) {
            n = unit ? 0 : utf8_cut(p, room);
            s->trimmed = true;
            s->string_max = s->string_len + n; /* nothing behind a cut */
        }
        s->string_len += n;
    }
    keep_bytes(s, p, n);
}

static void
begin_string(struct kmsg_scan *s)
{
    s->state = SCAN_STRING;
    s->is_key = s->expect_key;
    s->expect_key = false;
    s->word_len = 0;
    s->escape_len = 0;
    s->high = 0;
    s->string_len = 0;
    s->string_max = in_array(s) ? KMSG_ITEM_STRING_MAX : KMSG_STRING_MAX;
    s->sink = s->is_key && s->depth <= 2 ? SINK_WORD : SINK_NONE;
    if (s->is_key || s->depth != 2 || in_array(s) || s->at2 == MEMBER_OTHER)
        return;
    if (s->at2 != MEMBER_TEXT) {
        s->sink = SINK_WORD;
    } else if (s->have_header && s->have_parent && s->head.type == KMSG_STREAM &&
               s->stream != KMSG_STREAM_OTHER && !s->text_ended) {
        s->sink = SINK_TEXT;
        s->out_len = 0;
        s->bare_high = false;
        s->streaming = true;
        buf_clear(s->keep);
    }
}

static void
end_value(struct kmsg_scan *s)
{
    switch (s->at2) {
    case MEMBER_MSG_TYPE:
        kmsg_copy_field(s->head.type_name, KMSG_TYPE_NAME_MAX, s->word, s->word_len);
        s->head.type = kmsg_type_find(s->head.type_name);
        break;
    case MEMBER_SESSION:
        kmsg_copy_field(s->head.session, KMSG_ID_MAX, s->word, s->word_len);
        break;
    case MEMBER_MSG_ID:
        kmsg_copy_field(s->head.parent_id, KMSG_ID_MAX, s->word, s->word_len);
        break;
    case MEMBER_NAME:
        s->stream = kmsg_stream_find(s->word);
        break;
    default:
        break;
    }
}

static void
end_string(struct kmsg_scan *s)
{
    end_surrogate(s);
    s->state = SCAN_STRUCTURE;
    s->word[s->word_len] = '\0';
    if (s->sink == SINK_TEXT) {
        flush_text(s, true);
        s->text_ended = true;
    }
    if (s->is_key && s->depth == 1)
        s->at1 = find_member(s);
    if (s->is_key && s->depth == 2)
        s->at2 = find_member(s);
    if (!s->is_key && s->sink == SINK_WORD)
        end_value(s);
    s->sink = SINK_NONE;
}

/* Bytes of an escape that may begin in one chunk and end in another. Returns how many it took. */
static size_t
scan_escape(struct kmsg_scan *s, const char *p, size_t n)
{
    size_t need = 2, k = 0;

    if (s->escape_len == 0 && n >= 2) {
        need = p[1] == 'u' ? 6 : 2;
        if (n >= need) {
            keep_string(s, p, need, true);
            sink_escape(s, p);
            return need;
        }
    }
    while (k < n) {
        s->escape[s->escape_len++] = p[k++];
        need = s->escape_len >= 2 && s->escape[1] == 'u' ? 6 : 2;
        if (s->escape_len == need) {
            s->escape_len = 0;
            keep_string(s, s->escape, need, true);
            sink_escape(s, s->escape);
            break;
        }
    }
    return k;
}

/* The bytes of any other string up to a quote or an escape, n > 0. */
static size_t
plain_bytes(struct kmsg_scan *s, const char *p, size_t n)
{
    const char *end = p + n, *stop;
    size_t k;

    /* The quote found once is good until the scan passes it: no byte is looked at twice. */
    if (!s->quote || s->quote < p) {
        s->quote = memchr(p, '"', n);
        s->quote = s->quote ? s->quote : end;
    }
    stop = memchr(p, '\\', (size_t)(s->quote - p));
    stop = stop ? stop : s->quote;
    k = (size_t)(stop - p);
    keep_string(s, p, k, false);
    if (s->sink == SINK_WORD)
        sink_word(s, p, k);
    return k;
}

static size_t
scan_string(struct kmsg_scan *s, const char *p, size_t n)
{
    if (s->escape_len > 0 || *p == '\\')
        return scan_escape(s, p, n);
    if (*p == '"') {
        end_string(s);
        keep_bytes(s, p, 1);
        return 1;
    }
    end_surrogate(s);
    return s->sink == SINK_TEXT ? copy_text(s, p, n) : plain_bytes(s, p, n);
}

/* ---- structure ---- */

static void
push(struct kmsg_scan *s, bool array)
{
    if (s->depth == 0)
        s->items[0]++;
    if (s->depth == KMSG_DEPTH_MAX) {
        s->too_deep = true;
        s->state = SCAN_DONE;
        return;
    }
    s->depth++;
    s->arrays = (s->arrays & ~(UINT64_C(1) << s->depth)) | (uint64_t)array << s->depth;
    s->items[s->depth] = 0;
    s->expect_key = !array;
    if (s->depth == 2)
        s->at2 = MEMBER_OTHER;
    if (s->depth == 1)
        s->at1 = MEMBER_OTHER;
}

/* After the header and the parent are known: what is done with the rest. */
static void
decide(struct kmsg_scan *s)
{
    if (s->head.type == KMSG_ERROR || s->head.type == KMSG_EXECUTE_REPLY)
        s->trim = true;
    else if (s->head.type != KMSG_STREAM && s->have_header && s->have_parent)
        s->state = SCAN_DONE;
}

static void
pop(struct kmsg_scan *s, bool array)
{
    if (s->depth == 0 || in_array(s) != array) {
        s->bad = true;
        return;
    }
    if (s->skip_depth == s->depth)
        s->skip_depth = 0;
    s->depth--;
    s->expect_key = false;
    if (s->depth != 1)
        return;
    s->have_header = s->have_header || s->at1 == MEMBER_HEADER;
    s->have_parent = s->have_parent || s->at1 == MEMBER_PARENT;
    if (s->at1 == MEMBER_HEADER || s->at1 == MEMBER_PARENT)
        decide(s);
}

static void
comma(struct kmsg_scan *s)
{
    s->expect_key = s->depth > 0 && !in_array(s);
    s->items[s->depth]++;
    if (s->trim && s->skip_depth == 0 && in_array(s) && s->items[s->depth] >= KMSG_ITEMS_MAX) {
        s->skip_depth = s->depth;
        s->trimmed = true;
    }
}

/* One byte between strings. It is kept after it was understood, so that a closing bracket ends what
 * is skipped and a comma begins it. */
static void
structure(struct kmsg_scan *s, char c)
{
    switch (c) {
    case '{':
    case '[':
        push(s, c == '[');
        break;
    case '}':
    case ']':
        pop(s, c == ']');
        break;
    case ',':
        comma(s);
        break;
    case '"':
        begin_string(s);
        break;
    default:
        break;
    }
}

size_t
kmsg_scan_add(struct kmsg_scan *s, const char *p, size_t n)
{
    size_t i = 0;

    s->quote = NULL;
    while (i < n && s->state != SCAN_DONE) {
        size_t from = i;

        if (s->state == SCAN_STRING) {
            i += scan_string(s, p + i, n - i);
            continue;
        }
        while (i < n && s->state == SCAN_STRUCTURE && !strchr("{}[],\"", p[i]))
            i++;
        keep_bytes(s, p + from, i - from);
        if (i == n)
            break;
        structure(s, p[i]);
        keep_bytes(s, p + i, 1);
        i++;
    }
    return i;
}
