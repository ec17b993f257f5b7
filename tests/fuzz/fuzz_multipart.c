/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include "http/multipart.h"

#include <stdlib.h>
#include <string.h>

/* A body with the boundary "b"; every part lies within it, behind the one before. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *body = (const char *)data, *behind = body;
    struct err err = ERR_INIT;
    struct multipart_part part;
    struct multipart m;
    int rc = multipart_begin(&m, "multipart/form-data; boundary=b", body, size, &err);
    int parts = 0;

    while (rc >= 0 && (rc = multipart_next(&m, &part, &err)) > 0) {
        if (part.p < behind || part.p + part.n > body + size || ++parts > MULTIPART_PARTS_MAX ||
            strlen(part.name) == 0)
            abort();
        behind = part.p + part.n;
    }
    if (rc < 0 && (err.slug == NULL || strcmp(err.slug, "bad_multipart") != 0))
        abort();
    return 0;
}
