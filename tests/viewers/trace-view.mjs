// SPDX-License-Identifier: GPL-2.0-or-later
// Opens a Chrome trace in headless Chromium, in the viewers that people use, and prints what they made of
// it as one JSON object: the browser's own performance panel ("panel") and speedscope. Everything is served from
// 127.0.0.1; NODE_PATH names where playwright-core and speedscope are installed.
//   node trace-view.mjs FILE OUTDIR VIEWER...      screenshots go to OUTDIR/VIEWER*.png
import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { readFileSync, existsSync } from 'node:fs';
import { join, dirname, resolve, extname } from 'node:path';

const [file, out, ...viewers] = process.argv.slice(2);
const require = createRequire(join(process.env.NODE_PATH ?? '.', 'x.js'));
const { chromium } = require(join(process.env.NODE_PATH, 'playwright-core'));
const speedscope = join(process.env.NODE_PATH, 'speedscope', 'dist', 'release');
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm',
	'.json': 'application/json' };

const server = createServer((req, res) => {
	const path = new URL(req.url, 'http://x').pathname;
	const name = path === '/trace.json' ? file : resolve(join(speedscope, path));
	if (path !== '/trace.json' && (!name.startsWith(speedscope) || !existsSync(name))) return res.writeHead(404).end();
	res.writeHead(200, { 'content-type': types[extname(path)] ?? 'application/octet-stream',
		'access-control-allow-origin': '*' });
	res.end(readFileSync(name));
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const here = `http://127.0.0.1:${server.address().port}`;

// The browser serves its own developer tools on its debugging port.
const free = createServer();
await new Promise((done) => free.listen(0, '127.0.0.1', done));
const port = free.address().port;
await new Promise((done) => free.close(done));
const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true,
	args: ['--no-sandbox', '--headless=new', `--remote-debugging-port=${port}`, '--remote-allow-origins=*'],
	ignoreDefaultArgs: ['--headless'],
});
const page_of = async () => {
	const page = await (await browser.newContext({ viewport: { width: 1400, height: 900 } })).newPage();
	page.said = [];
	page.on('console', (m) => ['error', 'warning'].includes(m.type()) && page.said.push(m.text()));
	page.on('pageerror', (e) => page.said.push(String(e)));
	return page;
};

const look = {
	// Its importer, its profiles (one a lane), and the totals of one of them.
	async speedscope() {
		const page = await page_of();
		await page.addInitScript(() => { window.alert = (m) => console.error(m); });
		await page.goto(`${here}/index.html#profileURL=${encodeURIComponent(`${here}/trace.json`)}`);
		await page.waitForFunction(() => /\(1\/\d+\)|\d+\/\d+/.test(document.body.innerText), null, { timeout: 60000 });
		const text = await page.evaluate(() => document.body.innerText);
		await page.screenshot({ path: join(out, 'speedscope.png') });
		await page.keyboard.press('2');
		await page.waitForTimeout(500);
		await page.screenshot({ path: join(out, 'speedscope-heavy.png') });
		return { profiles: Number(/\(\d+\/(\d+)\)/.exec(text)?.[1]), title: text.split('\n')[1],
			said: page.said.filter((m) => !/WebGL/.test(m)) };
	},
	// Loaded as a person does, by the panel's button; then counted by the panel's own trace engine.
	async panel() {
		const page = await page_of();
		const tools = `http://127.0.0.1:${port}/devtools`;
		await page.goto(`${tools}/devtools_app.html?panel=timeline`);
		const button = page.locator('[aria-label*="Load trace"], [title*="Load trace"]').first();
		await button.waitFor({ timeout: 60000 });
		const [chooser] = await Promise.all([page.waitForEvent('filechooser'), button.click()]);
		await chooser.setFiles(file);
		await page.locator('text=Bottom-up').first().waitFor({ timeout: 60000 });
		const made = await page.evaluate(async ([url, text]) => {
			const { TraceModel } = await import(url);
			const model = TraceModel.Model.createWithAllHandlers();
			await model.parse(JSON.parse(text).traceEvents, { metadata: {} });
			const data = model.parsedTrace(0).data;
			const got = { threads: 0, queries: 0, sum: 0, names: [] };
			for (const process of data.Renderer.processes.values())
				for (const thread of process.threads.values()) {
					got.threads++;
					got.names.push(thread.name);
					for (const e of thread.entries) {
						if (e.cat !== 'query') continue;
						got.queries++;
						if (!e.args.end) got.sum += Math.round(e.dur * 1000);
					}
				}
			return got;
		}, [`${tools}/models/trace/trace.js`, readFileSync(file, 'utf8')]);
		// Unfold the process and its first lane, zoom in, and choose a slice. Only for the picture.
		await page.mouse.click(800, 600); // the help goes away
		await page.waitForTimeout(300);
		await page.mouse.click(252, 129);
		await page.waitForTimeout(300);
		await page.mouse.click(262, 147);
		await page.mouse.move(600, 165);
		for (let i = 0; i < 12; i++) await page.mouse.wheel(0, -120);
		await page.waitForTimeout(1000);
		await page.mouse.click(600, 165);
		await page.waitForTimeout(1000);
		await page.screenshot({ path: join(out, 'panel.png') });
		const dialogs = await page.locator('.timeline-status-dialog:visible').count();
		return { ...made, dialogs, said: page.said.filter((m) => !/404|WebGL/.test(m)) };
	},
};

const result = {};
try {
	for (const v of viewers) result[v] = await look[v]();
} finally {
	await browser.close();
	server.close();
}
console.log(JSON.stringify(result));
