/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every unit test includes, in the order that cmocka needs. */
#ifndef SONDE_TESTS_UNIT_H
#define SONDE_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#endif
