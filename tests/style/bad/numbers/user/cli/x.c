// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>

int sonde_x(const char *s)
{
	return atoi(s);
}
