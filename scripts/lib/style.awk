# SPDX-License-Identifier: GPL-2.0-or-later
# The rules of scripts/check-style that look at one file at a time. Prints "file:line: rule: what".
# Invariant: paths are relative to the root being checked; every rule has a bad sample in tests/style/bad.
#
# What it cannot see: an identifier made by a macro, a function whose body does not open with a brace of
# its own in column 0, an include that a macro spells.

BEGIN {
	# A folder of user/ and what it may include besides itself, core/ and sonde/.
	allow["core"] = ""
	allow["model"] = ""
	allow["target"] = ""
	allow["attach"] = "target"
	allow["lens"] = "model target attach"
	allow["record"] = "model"
	allow["session"] = "lens attach model record target"
	allow["judge"] = "model record"
	allow["export"] = "model"
	allow["show"] = "model judge"
	allow["lab"] = "session judge target record show"
	allow["cli"] = "*"

	# Libraries that one part (or a few) keeps to itself.
	keep("^bpf/", "attach session lens")
	keep("\\.skel\\.h$", "attach session lens")
	keep("^(libelf|gelf|dwarf)\\.h$|^elfutils/", "target")
	keep("^Zydis/|^Zycore/", "target")
	keep("^sqlite3\\.h$", "record")
	keep("^gsl/", "judge")

	# bpf/lib: a lower layer never includes a higher one.
	layer["base"] = 0
	layer["filter"] = layer["series"] = layer["block"] = layer["tls"] = layer["window"] = 1
	layer["request"] = layer["handlerargs"] = layer["books"] = 1
	layer["span"] = layer["stackconn"] = layer["stack"] = layer["faultclass"] = layer["threads"] = 2
	layer["anatomy"] = layer["offcpu"] = 2
	layer["emit"] = layer["sites"] = layer["faultstack"] = layer["faultby"] = 3
	layer["anatomy_query"] = 3
	layer["conn"] = layer["anatomy_hooks"] = 4
	layer["handler"] = 5
	layer["syscall"] = 6

	max_function = 80
	max_file = 600
	max_columns = 100
}

function keep(pattern, folders)
{
	kept[++n_kept] = pattern
	keepers[n_kept] = folders
}

function bad(rule, what)
{
	print FILENAME ":" FNR ": " rule ": " what
}

function has(list, word)
{
	return list == "*" || index(" " list " ", " " word " ")
}

function columns(line,    i, n, c)
{
	if (length(line) * 8 <= max_columns)
		return 0
	n = 0
	for (i = 1; i <= length(line); i++) {
		c = substr(line, i, 1)
		n = c == "\t" ? n + 8 - n % 8 : n + 1
	}
	return n
}

FNR == 1 {
	finish()
	is_c = FILENAME ~ /\.(c|h|cpp|hpp)$/
	is_code = is_c || FILENAME !~ /\.md$/
	folder = ""
	if (FILENAME ~ /^user\/[a-z]+\//) {
		split(FILENAME, part, "/")
		folder = part[2]
	}
	ours = is_c && FILENAME ~ /^(user|bpf|include)\//
	spdx = 0
	opened = 0
	last_file = FILENAME
}

{ last_line = FNR }

FNR <= 2 && /SPDX-License-Identifier: GPL-2\.0-or-later/ { spdx = 1 }

# ---- what a file may include ----

is_c && /^#[ \t]*include[ \t]*["<]/ {
	path = $0
	sub(/^#[ \t]*include[ \t]*["<]/, "", path)
	sub(/[">].*$/, "", path)
	check_include(path)
}

function check_include(path,    to, i, from, target)
{
	if (folder != "" && !(folder in allow)) {
		bad("includes", "folder user/" folder " has no line in scripts/lib/style.awk")
		return
	}
	to = path
	sub(/\/.*/, "", to)
	if (folder != "" && path ~ /\// && (to in allow) && to != folder && to != "core" &&
	    !has(allow[folder], to))
		bad("includes", "user/" folder " may not include " to "/")
	if (FILENAME ~ /^include\// && (to in allow))
		bad("includes", "include/sonde may not include user/" to)
	if (folder != "" && allow[folder] != "*")
		for (i = 1; i <= n_kept; i++)
			if (path ~ kept[i] && !has(keepers[i], folder))
				bad("libraries", path " belongs to " keepers[i])
	if (FILENAME ~ /^bpf\/lib\// && path ~ /^lib\//) {
		from = FILENAME
		target = path
		gsub(/.*\/|\..*/, "", from)
		gsub(/.*\/|\..*/, "", target)
		if (from != target && layer[target] >= layer[from])
			bad("includes", "bpf/lib/" from " may not include the layer " target)
	}
}

# ---- names, numbers, printk ----

ours && /^[ \t]*#[ \t]*define[ \t]+_/ { bad("names", "an identifier begins with an underscore") }

ours && /^[A-Za-z_]/ && !/^(typedef )?(struct|union|enum)? *[a-z_]*;/ {
	line = $0
	gsub(/__attribute__|__cxa_demangle|__builtin_[a-z_]*|__typeof__|__always_inline|__noinline/, "", line)
	gsub(/_Static_assert|_Thread_local|__(uint|type|array|ksym|kconfig|hidden|weak)/, "", line)
	gsub(/"[^"]*"/, "", line)
	if (match(line, /(^|[ \t*])_+[A-Za-z][A-Za-z0-9_]*[ \t]*(\(|;|=|\[)/))
		bad("names", "an identifier begins with an underscore")
}

is_c && FILENAME ~ /^(user|bpf)\// && folder != "core" && !/^[ \t]*[*\/]/ &&
/(^|[^A-Za-z0-9_])(strtou?ll?|atoi|atoll?|atof)[ \t]*\(/ {
	bad("numbers", "parse numbers with core/num.h, which refuses trailing junk")
}

FILENAME ~ /^bpf\// && /bpf_(trace_)?v?printk[ \t]*\(/ {
	bad("printk", "no trace output in committed code")
}

# ---- places that readers of this repository do not have ----

/(^|[^A-Za-z0-9_.])\/wor[k](\/|$|[^A-Za-z0-9_])/ { bad("places", "a path of somebody's machine") }

/(^|[^A-Za-z0-9_.\/-])shared\/[A-Za-z]/ { bad("places", "a path outside this repository") }

# ---- size ----

# A comment or a script may run on a little: it is C code that has to fit two windows side by side.
is_code && FILENAME !~ /\.(html|sql|txt|def)$|^Makefile$/ {
	code = $0
	sub(/[ \t]*(\/\*.*|\/\/ .*|\\)$/, "", code)
	if (code ~ /^[ \t]*(\*|#)/)
		code = ""
	if (is_c && columns(code) > max_columns || columns($0) > max_columns + 10)
		bad("width", columns($0) " columns, " max_columns " are allowed (10 more in" \
		    " comments and scripts)")
}

is_c && /^\{/ { opened = FNR }

is_c && /^\}/ {
	if (opened && FNR - opened - 1 > max_function)
		bad("function-length", FNR - opened - 1 " lines, " max_function " are allowed")
	opened = 0
}

function finish()
{
	if (last_file == "")
		return
	if (!spdx && last_file !~ /\.(md|txt|def|html|recipe)$/)
		print last_file ":1: spdx: no licence line (GPL-2.0-or-later) in lines 1 or 2"
	if (last_line > max_file && last_file !~ /\.(md|html|txt)$/)
		print last_file ":" last_line ": file-length: " last_line " lines, " max_file \
			" are allowed"
}

END { finish() }
