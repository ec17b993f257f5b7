/* SPDX-License-Identifier: MIT */
#include "fcgi/peek.h"

#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define PEEK_BYTES 8192 /* the parameters in question are nginx's first */
#define HEADER_BYTES 8
#define TYPE_BEGIN 1
#define TYPE_PARAMS 4

/* A length of the name-value coding: one byte, or four with the top bit set. 1 read, 0 not whole.
 */
static int
take_length(const uint8_t **p, const uint8_t *end, size_t *ret)
{
    if (*p == end)
        return 0;
    if ((**p & 0x80) == 0) {
        *ret = *(*p)++;
        return 1;
    }
    if (end - *p < 4)
        return 0;
    *ret = ((size_t)((*p)[0] & 0x7f) << 24) | ((size_t)(*p)[1] << 16) | ((size_t)(*p)[2] << 8) |
           (*p)[3];
    *p += 4;
    return 1;
}

static long
find_in_record(const uint8_t *p, const uint8_t *end, const char *name, const char **ret)
{
    size_t wanted = strlen(name), name_len, value_len;

    while (take_length(&p, end, &name_len) && take_length(&p, end, &value_len)) {
        if (name_len > (size_t)(end - p) || value_len > (size_t)(end - p) - name_len)
            return -1;
        if (name_len == wanted && memcmp(p, name, wanted) == 0) {
            *ret = (const char *)p + name_len;
            return (long)value_len;
        }
        p += name_len + value_len;
    }
    return -1;
}

long
fcgi_find_param(const void *bytes, size_t n, const char *name, const char **ret)
{
    const uint8_t *p = bytes, *end = p + n;

    while (end - p >= HEADER_BYTES) {
        size_t length = ((size_t)p[4] << 8) | p[5], padding = p[6];
        int type = p[1];
        const uint8_t *content = p + HEADER_BYTES;

        if (p[0] != 1 || (type != TYPE_BEGIN && type != TYPE_PARAMS))
            return -1;
        /* of a record cut by our window the whole pairs still count */
        size_t there = (size_t)(end - content) < length ? (size_t)(end - content) : length;
        if (type == TYPE_PARAMS) {
            long found = find_in_record(content, content + there, name, ret);
            if (found >= 0)
                return found;
        }
        if ((size_t)(end - content) < length + padding)
            return -1;
        p = content + length + padding;
    }
    return -1;
}

long
fcgi_peek_param(int fd, const char *name, char *ret, size_t size, int wait_ms)
{
    char window[PEEK_BYTES];
    struct pollfd wait = {fd, POLLIN, 0};
    const char *value;

    if (poll(&wait, 1, wait_ms) != 1)
        return -1;
    ssize_t n = recv(fd, window, sizeof(window), MSG_PEEK | MSG_DONTWAIT);
    long len = n > 0 ? fcgi_find_param(window, (size_t)n, name, &value) : -1;
    if (len < 0 || (size_t)len >= size)
        return -1;
    memcpy(ret, value, (size_t)len);
    ret[len] = '\0';
    return len;
}
