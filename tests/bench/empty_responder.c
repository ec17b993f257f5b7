/* SPDX-License-Identifier: MIT */
/* An empty libfcgi responder on fd 0: what nginx and FastCGI cost without a service behind them. */
#include <fcgiapp.h>

int
main(void)
{
    FCGX_Request request;
    if (FCGX_Init() != 0 || FCGX_InitRequest(&request, 0, 0) != 0)
        return 1;
    while (FCGX_Accept_r(&request) == 0) {
        (void)FCGX_PutS("Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                        request.out);
        FCGX_Finish_r(&request);
    }
    return 0;
}
