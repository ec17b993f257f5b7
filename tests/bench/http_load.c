/* SPDX-License-Identifier: MIT */
/*
 * Times HTTP requests on one kept connection to nginx's port; prints one JSON line.
 *
 * usage: http_load PORT KEY COUNT METHOD PATH [BODY [ACCEPT]]
 *   first_ms is the time until the text "event: stdout" arrived, for event streams
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

static double
now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
die(const char *what)
{
    fprintf(stderr, "http_load: %s\n", what);
    exit(1);
}

static int
dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        die("cannot connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* Reads one answer to its end (Content-Length or chunked); the body is thrown away but its end
 * kept. */
static void
read_answer(int fd, struct buf *in, double began, double *ret_first)
{
    size_t head = 0;
    long long want = -1, got = 0;
    bool chunked = false;
    buf_clear(in);
    *ret_first = 0;
    for (;;) {
        char *room = buf_reserve(in, 65536);
        ssize_t n = room == NULL ? -1 : read(fd, room, 65536);
        if (n <= 0)
            die("the connection ended early");
        buf_added(in, (size_t)n);
        if (*ret_first == 0 && strstr(buf_str(in), "event: stdout") != NULL)
            *ret_first = now_ms() - began;
        if (head == 0) {
            const char *end = strstr(buf_str(in), "\r\n\r\n");
            if (end == NULL)
                continue;
            head = (size_t)(end - in->data) + 4;
            if (strncmp(in->data, "HTTP/1.1 200", 12) != 0 &&
                strncmp(in->data, "HTTP/1.1 20", 11) != 0)
                die(in->data);
            const char *length = strcasestr(in->data, "\r\nContent-Length: ");
            chunked = strcasestr(in->data, "\r\nTransfer-Encoding: chunked") != NULL;
            if (length != NULL && length < end)
                want = strtoll(length + 18, NULL, 10);
            buf_consume(in, head);
            got = (long long)in->len;
        } else {
            got += n;
        }
        if (want >= 0 && got >= want)
            return;
        if (chunked && in->len >= 5 && memcmp(in->data + in->len - 5, "0\r\n\r\n", 5) == 0)
            return;
        if (!chunked && want >= 0)
            buf_clear(in);
        else if (chunked && in->len > (1 << 20))
            buf_consume(in, in->len - 64);
    }
}

int
main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: http_load PORT KEY COUNT METHOD PATH [BODY [ACCEPT]]\n");
        return 2;
    }
    int port = (int)strtol(argv[1], NULL, 10), count = (int)strtol(argv[3], NULL, 10);
    const char *body = argc > 6 ? argv[6] : "", *accept = argc > 7 ? argv[7] : "application/json";
    struct buf request = BUF_INIT(1 << 20), in = BUF_INIT(64 << 20);
    double *times = xcalloc((size_t)count, sizeof(*times)),
           *firsts = xcalloc((size_t)count, sizeof(*firsts));
    (void)buf_printf(&request,
                     "%s %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nAccept: %s\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     argv[4], argv[5], argv[2], accept, strlen(body), body);
    int fd = dial(port);
    for (int i = 0; i < count; i++) {
        double began = now_ms();
        if (fd_write_all(fd, request.data, request.len) < 0)
            die("cannot send");
        read_answer(fd, &in, began, &firsts[i]);
        times[i] = now_ms() - began;
    }
    (void)close(fd);
    printf("{\"ms\": [");
    for (int i = 0; i < count; i++)
        printf("%s%.3f", i ? ", " : "", times[i]);
    printf("], \"first_ms\": [");
    for (int i = 0; i < count; i++)
        printf("%s%.3f", i ? ", " : "", firsts[i]);
    printf("]}\n");
    free(times);
    free(firsts);
    buf_done(&request);
    buf_done(&in);
    return 0;
}
