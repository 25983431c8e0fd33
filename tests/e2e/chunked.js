// SPDX-License-Identifier: GPL-2.0-or-later
// A server whose answers are chunked, each chunk in a send of its own. Says its port.
const http = require('http');
const server = http.createServer((q, r) => {
	q.resume();
	q.on('end', () => {
		if (q.method === 'DELETE') {
			r.writeHead(204);
			r.end();
			return;
		}
		let left = 3;
		const more = () => {
			if (!left--)
				return r.end();
			r.write('x'.repeat(10000));
			setImmediate(more);
		};
		more();
	});
});
server.keepAliveTimeout = 60000;
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
