// SPDX-License-Identifier: GPL-2.0-or-later
int x(void)
{
	bpf_printk("here");
	return 0;
}
