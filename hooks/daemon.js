// The daemon of the checkout that this session works in: where it listens, and how it is asked. No rules are here or in the
// modules beside: they ask, and obey. Where nothing is coordinated, nothing is asked.

export const DEADLINE_MS = 4000 // as the bridge's
const JSON_TYPE = { 'content-type': 'application/json' }
const HANGS_MS = 30000
const HUNG_MS = 1000
let place // the promise of { socket, root }, or of null where nothing is coordinated
let top // the checkout that this session is in, if it is in one
const places = new Map() // the same promises, by the files outside of this session's project
let began // where this session began, or was last known to be coordinated: it may work in a folder outside
let hungUntil = 0 // a daemon that let a time limit pass is not waited for with every call
let client // what every event says of its client
const unheard = new Map() // since when, in seconds, answers to a session or a subagent were lost

/** Where the daemon listens; null where this repository is not coordinated. Looked for once, and again after `forget`. */
export function find($) {
  return (place ??= locate($).catch(fault => {
    place = undefined
    throw fault
  }))
}

/** Look for the daemon again at the next question: it may listen elsewhere, or Corral was taken away. */
export function forget() {
  place = undefined
  places.clear()
}

/** Whether the daemon let a time limit pass just now: what nothing is guarded by then need not be asked. */
export function isHung() {
  return Date.now() < hungUntil
}

/** Run a script where the session began: its own folder may be gone. */
function python($, argv, options) {
  return $.process.run(['python3', '-I', '-S', ...argv], { ...options, ...(began && { cwd: began }) })
}

async function locate($) {
  const [here, checkout] = await where($, [])
  top = checkout
  if (here) began = here.root
  return here
}

async function where($, options, stdin) {
  const done = await python($, [`${$.plugin.root}/hooks/where.py`, ...options], { timeoutMs: 5000, ...(stdin && { stdin }) })
  if (done.exitCode !== 0) throw new Error(`where.py ended with ${done.exitCode}: ${done.stderr.slice(0, 200)}`)
  const [socket, root, checkout] = done.stdout.split('\n')
  return [socket ? { socket, root } : null, checkout]
}

/** Where the daemon of the checkout listens that a file is in, if that is another project's; else null. */
async function findThere($, path, about) {
  if (top && path.startsWith(`${top}/`) && !(await find($))) return null
  if (!places.has(path)) {
    const found = where($, ['--of-edit'], JSON.stringify(about)).then(([there]) => there)
    places.set(path, found)
    found.catch(() => places.delete(path))
  }
  return places.get(path)
}

/**
 * Ask the daemon of the project in whose checkout the file of an edit is, where that is another one than this session's.
 *
 * Resolves {} where it is in none.
 */
export async function askThere($, event, path, fields) {
  const about = { ...await speaker($), ...fields, hook_event_name: event, _hook: { ...client, sent: Date.now() / 1000 } }
  const there = await findThere($, path, about)
  return there ? request($, `hooks/${event}`, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(about) }, DEADLINE_MS, there) : {}
}

/** Which client this is: its process, its version, and that a mod speaks. */
export async function introduce($) {
  const { CLAUDE_PID, CLAUDE_PROJECT_DIR } = await $.process.hookEnv().catch(() => ({}))
  began ??= CLAUDE_PROJECT_DIR
  const { version } = await $.session.version().catch(() => ({}))
  client = { source: 'mod', pid: Number(CLAUDE_PID) || 0, client_version: version ?? '' }
}

/** Which session asks, and where it works. */
export async function speaker($) {
  const [session_id, cwd] = await Promise.all([$.session.id(), $.session.cwd()])
  return { session_id, cwd }
}

/**
 * Ask the daemon about an event; resolves its answer, {} where nothing is coordinated. Rejects where no daemon answers.
 *
 * @param ms how long to wait; 0: as long as the daemon holds the question
 */
export async function ask($, event, fields, ms = DEADLINE_MS) {
  const by = fields.session_id && fields.cwd ? {} : await speaker($)
  const about = { ...by, ...fields, hook_event_name: event.split('/')[0], _hook: client }
  if (event.startsWith('Mail/')) return post($, `hooks/${event}`, about, ms)
  const actor = about.agent_id || about.session_id
  const sent = Date.now() / 1000
  const since = unheard.get(actor)
  try {
    const answer = await post($, `hooks/${event}`, { ...about, _hook: { ...client, sent, ...(since && { unheard: [since, sent] }) } }, ms)
    unheard.delete(actor)
    return answer
  } catch (fault) { // what a lost answer brought comes again with the next one
    unheard.set(actor, since ?? sent)
    throw fault
  }
}

/** Post to the daemon; resolves its answer, {} where nothing is coordinated. */
export function post($, path, fields, ms = DEADLINE_MS) {
  return request($, path, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(fields) }, ms)
}

/** Get something of the daemon's; resolves its answer, {} where nothing is coordinated. */
export function get($, path) {
  return request($, path, { method: 'GET' }, DEADLINE_MS)
}

async function request($, path, init, ms, there) {
  const here = there ?? await find($)
  if (!here) return {}
  const sent = $.http.fetch(`http://localhost/api/v1/${path}`, { ...init, socketPath: here.socket })
  const limit = ms === DEADLINE_MS && isHung() ? HUNG_MS : ms
  let isOver = false
  const late = limit && $.clock.sleep(limit).then(() => {
    if (!isOver) hungUntil = Date.now() + HANGS_MS
    throw new Error(`no answer within ${limit} ms`)
  })
  const reply = await (late ? Promise.race([sent, late]) : sent).finally(() => { isOver = true })
  hungUntil = 0
  if (!reply.ok) throw new Error(`the daemon answered ${reply.status}: ${reply.text.slice(0, 200)}`)
  return JSON.parse(reply.text)
}

/** Run hook.py with an event, as a client without mods does; resolves how it ended. Rejects where python3 cannot be run. */
export async function runHook($, event, fields, timeoutMs) {
  const stdin = JSON.stringify({ ...await speaker($), ...fields, hook_event_name: event })
  return python($, [`${$.plugin.root}/hooks/hook.py`, event], { stdin, timeoutMs })
}

/** What hook.py prints to an event: the last look, where no daemon answers. Rejects where python3 cannot be run. */
export async function lastLook($, event, fields) {
  return JSON.parse((await runHook($, event, fields, 30000)).stdout || '{}')
}
