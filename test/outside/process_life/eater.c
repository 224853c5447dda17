/* SPDX-License-Identifier: Apache-2.0 */
/* A library for late.c: needs 64 bytes of static TLS. */
static __thread char data[64] __attribute__((tls_model("initial-exec"), aligned(64), used));

__attribute__((visibility("default"))) char *eater_data(void);

char *eater_data(void)
{
    return data;
}
