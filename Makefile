# SPDX-License-Identifier: GPL-2.0-or-later
# sonde: build, demo, check. Everything is found by wildcard: a new lens, exporter or test is a new file.

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SECONDARY:

B        := build
PREFIX   ?= /usr/local
DESTDIR  ?=
VERSION  := $(shell cat VERSION)
ARCH     := x86_64
Q        := $(if $(V),,@)
msg       = $(if $(V),,@printf '  %-7s %s\n' "$(1)" "$(2)")

CC       ?= gcc
CXX      ?= g++
CLANG    ?= clang
BPFTOOL  ?= $(shell command -v bpftool || echo /usr/sbin/bpftool)
WARN     := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Werror
CPPFLAGS := -D_GNU_SOURCE -DSONDE_VERSION='"$(VERSION)"' -DSONDE_DATADIR='"$(PREFIX)/share/sonde"' \
            -Iinclude -Iuser -I$(B)/skel -I$(B)/gen
CFLAGS   ?= -O2 -g
CFLAGS_   = -std=gnu11 $(WARN) $(CFLAGS) $(SAN)
LIBS     := -lbpf -ldw -lelf -lZydis -lsqlite3 -ljansson -lprotobuf-c -lgsl -lgslcblas -lstdc++ -lm -lpthread
BPFFLAGS := -g -O2 -target bpf -D__TARGET_ARCH_x86 -Wall -Werror -Wno-unused-function \
            -Ivmlinux/$(ARCH) -Iinclude -Ibpf

bpf_src  := $(wildcard bpf/*.bpf.c)
skels    := $(bpf_src:bpf/%.bpf.c=$(B)/skel/%.skel.h)
user_src := $(filter-out user/main.c,$(wildcard user/*/*.c user/*/*/*.c))
protos   := $(wildcard user/*/*.proto)
proto_c  := $(protos:user/%.proto=$(B)/gen/%.pb-c.c)
user_obj := $(user_src:%.c=$(B)/obj/%.o) $(proto_c:$(B)/gen/%.c=$(B)/obj/gen/%.o)
unit_src := $(wildcard tests/unit/*.c tests/unit/*/*.c)
unit_bin := $(unit_src:tests/unit/%.c=$(B)/unit/%)
fuzz_src := $(wildcard tests/fuzz/*.c)
fuzz_bin := $(fuzz_src:tests/fuzz/%.c=$(B)/fuzz/%)
tool_src := $(wildcard tests/harness/*.c tests/bench/*.c)
tool_bin := $(tool_src:tests/%.c=$(B)/%)
toolxx   := $(patsubst tests/%.cpp,$(B)/%,$(wildcard tests/harness/*.cpp tests/bench/*.cpp))
tbpf_src := $(wildcard tests/bench/*.bpf.c tests/harness/*.bpf.c)
tbpf_skel := $(tbpf_src:tests/%.bpf.c=$(B)/skel/%.skel.h)
tool_bin := $(filter-out $(tbpf_src:tests/%.c=$(B)/%),$(tool_bin))

# What the demos need beside sonde: a corpus, a load, and a look at the daemon's code bytes.
demo_bin := $(addprefix $(B)/harness/,mkcorpus searchload textdiff)

all: $(B)/sonde

$(B)/sonde: $(B)/obj/user/main.o $(B)/libsonde.a
	$(call msg,LINK,$@)
	$(Q)$(CC) $(CFLAGS_) -o $@ $^ $(LIBS)

$(B)/libsonde.a: $(user_obj)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/obj/%.o: %.c | $(skels) $(proto_c)
	$(call msg,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_) -MMD -MP -c -o $@ $<

$(B)/gen/%.pb-c.c: user/%.proto
	$(call msg,PROTO,$<)
	$(Q)mkdir -p $(B)/gen
	$(Q)protoc-c --proto_path=user --c_out=$(B)/gen $<

$(B)/obj/gen/%.o: $(B)/gen/%.c
	$(call msg,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_) -c -o $@ $<

$(B)/bpf/%.bpf.o: bpf/%.bpf.c
	$(call msg,BPF,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPFFLAGS) -MMD -MP -MT $@ -c -o $@ $<
	$(Q)llvm-strip -g $@

$(B)/skel/%.skel.h: $(B)/bpf/%.bpf.o
	$(Q)mkdir -p $(@D)
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst -,_,$*)_bpf >$@

# The program that runs inside a scratch process: bound at run time to the libraries of the target, so linked
# against none, and carried within sonde.
INSIDE := $(B)/inside.so

$(INSIDE): user/target/heap/inside/main.c user/target/heap/inside/report.h
	$(call msg,INSIDE,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -O1 -fPIC -fno-builtin -fno-stack-protector -fcf-protection=none \
		-fno-asynchronous-unwind-tables -shared -nostdlib -Wl,-e,sonde_inside_start \
		-Wl,--build-id=none -Wl,-z,noexecstack -Wl,--hash-style=both -s -o $@ $<

$(B)/obj/user/target/heap/scratch.o: $(INSIDE)
$(B)/obj/user/target/heap/scratch.o: CPPFLAGS += -DSONDE_INSIDE='"$(INSIDE)"'

# Programs of the tests and benchmarks: each source is a program of its own.
$(B)/bpf/bench/%.bpf.o: tests/bench/%.bpf.c
	$(call msg,BPF,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPFFLAGS) -MMD -MP -MT $@ -c -o $@ $<
	$(Q)llvm-strip -g $@

$(B)/skel/bench/%.skel.h: $(B)/bpf/bench/%.bpf.o
	$(Q)mkdir -p $(@D)
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst -,_,$*)_bpf >$@

$(B)/unit/%: tests/unit/%.c $(B)/libsonde.a
	$(call msg,UNIT,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(CFLAGS_) -Werror=unused-function -MMD -MP -MF $@.d -o $@ $< $(B)/libsonde.a $(LIBS) -lcmocka

$(B)/fuzz/%: tests/fuzz/%.c $(B)/libsonde.a
	$(call msg,FUZZ,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(CFLAGS_) -MMD -MP -MF $@.d -o $@ $< $(B)/libsonde.a $(LIBS)

$(B)/harness/% $(B)/bench/%: LDLIBS_ = $(shell sed -n 's/^ \* LIBS: //p' $<)

$(B)/harness/%: tests/harness/%.c
	$(call msg,TOOL,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(CFLAGS_) -MMD -MP -MF $@.d -o $@ $< $(LDLIBS_) -lpthread -lm

$(B)/bench/%: tests/bench/%.c $(B)/libsonde.a | $(tbpf_skel)
	$(call msg,TOOL,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(CFLAGS_) -MMD -MP -MF $@.d -o $@ $< $(B)/libsonde.a $(LDLIBS_) $(LIBS)

$(B)/harness/%: tests/harness/%.cpp
	$(call msg,TOOLXX,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -D_GNU_SOURCE -Iinclude -std=c++17 -Wall -Wextra -O2 -g -faligned-new -fsized-deallocation -o $@ $< $(LDLIBS_) -lpthread

$(B)/bench/%: tests/bench/%.cpp
	$(call msg,TOOLXX,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -D_GNU_SOURCE -Iinclude -std=c++17 -Wall -Wextra -O2 -g -MMD -MP -MF $@.d -o $@ $< $(LDLIBS_) -lpthread

tools: $(tool_bin) $(toolxx)
units: $(unit_bin)
fuzzers: $(fuzz_bin)

# `setup` installs what the build needs; demo and check call it first, so that a fresh machine works.
setup:
	$(Q)scripts/setup build

demo:
	$(Q)scripts/setup build demo
	$(Q)$(MAKE) --no-print-directory all $(demo_bin)
	$(Q)scripts/demo

thp-demo:
	$(Q)scripts/setup build demo
	$(Q)$(MAKE) --no-print-directory all $(demo_bin)
	$(Q)scripts/thp-demo

check:
	$(Q)scripts/setup build test
	$(Q)scripts/setup vm || echo "check: the tests on old kernels will be skipped"
	$(Q)$(MAKE) --no-print-directory all tools units fuzzers
	$(Q)scripts/check

bench:
	$(Q)scripts/setup build test
	$(Q)$(MAKE) --no-print-directory all tools
	$(Q)scripts/bench

# The committed pages that are made from the tables in user/cli.
pages: all
	$(Q)$(B)/sonde help --markdown >docs/options.md
	$(Q)$(B)/sonde help --man >docs/sonde.1

install: all
	install -D -m 755 $(B)/sonde $(DESTDIR)$(PREFIX)/bin/sonde
	install -D -m 644 docs/sonde.1 $(DESTDIR)$(PREFIX)/share/man/man1/sonde.1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(B)/sonde help --bash-completion >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/sonde
	install -D -m 644 include/sonde/consumption.h $(DESTDIR)$(PREFIX)/include/sonde/consumption.h
	install -d $(DESTDIR)$(PREFIX)/share/sonde/recipes $(DESTDIR)$(PREFIX)/share/doc/sonde
	install -m 644 $(wildcard recipes/*.recipe) $(DESTDIR)$(PREFIX)/share/sonde/recipes/
	install -m 644 README.md $(wildcard docs/*.md) $(DESTDIR)$(PREFIX)/share/doc/sonde/

clean:
	rm -rf $(B)

# The schema is built into its object by .incbin, which no -MMD sees.
$(B)/obj/user/record/schema.o: user/record/schema.sql user/record/schema_stacks.sql user/record/schema_anatomy.sql

-include $(user_obj:.o=.d) $(B)/obj/user/main.d $(wildcard $(B)/bpf/*.d $(B)/bpf/*/*.d $(B)/unit/*.d $(B)/unit/*/*.d $(B)/harness/*.d \
         $(B)/bench/*.d)

.PHONY: all tools units fuzzers setup demo thp-demo check bench pages install clean
