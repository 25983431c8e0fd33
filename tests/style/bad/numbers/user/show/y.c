// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>

unsigned long sonde_y(const char *s)
{
	return strtoul(s, NULL, 10);
}
