/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include "api/openapi_doc.h"

void
handle_openapi(struct api_call *c)
{
    api_renew(c);
    api_head(c, "no-store");
    (void)http_send(c->x, 200, "application/json", openapi_doc, openapi_doc_len);
}
