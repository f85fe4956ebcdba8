import { expect, mock, test } from 'claude-code/testing'

const HELD = { hookSpecificOutput: { permissionDecision: 'deny', permissionDecisionReason: 'held by Ann' } }
const WRITE = { tool: 'Write', file_path: '/repo/a.txt', content: 'x', tool_use_id: 'toolu_1' } as const

const PLACE = '/repo/.corral/run/corral.sock\n/repo\n'
const never = () => new Promise(() => undefined)
const count = (asked, what) => asked.filter(one => one === what).length

const engine = (on, { daemon, look = '{}', refused = '', where = _ => PLACE, sleep = never, run = _ => ({ result: {} }) }) => {
  const asked = []
  on('process.run', (_, e) => {
    asked.push(...[e.argv.at(-1), e.init?.cwd].filter(Boolean))
    const stdout = e.argv.some(one => String(one).endsWith('where.py')) ? where(e.argv) : look
    const exitCode = stdout === null ? 1 : refused && e.argv.at(-1) === 'WorktreeCreate' ? 3 : 0
    return { value: { exitCode, stdout: stdout ?? '', stderr: refused, isStdoutTruncated: false, isStderrTruncated: false } }
  })
  on('session.id', () => ({ value: 's-1' }))
  on('session.cwd', () => ({ value: '/repo' }))
  on('ui.log', () => ({ value: undefined }))
  on('clock.sleep', async (_, e) => ({ value: await sleep(e.ms) }))
  on('http.fetch', async (_, e) => {
    asked.push(e.url.split('/').at(-1))
    const answer = await daemon(e)
    return { value: { status: 200, ok: true, headers: {}, text: JSON.stringify(answer) } }
  })
  on('tool.call', (_, e) => run(e))
  return asked
}

test('what the daemon refuses does not run', async ($, on) => {
  engine(on, { daemon: () => HELD })
  expect((await $.tool.call(WRITE)).deny).toBe('held by Ann')
})

test('without a daemon the last look decides', async ($, on) => {
  const asked = engine(on, { daemon: () => { throw new Error('refused') }, look: JSON.stringify(HELD) })
  expect((await $.tool.call(WRITE)).deny).toBe('held by Ann')
  expect(asked).toContain('PreToolUse')
})

test('where nothing is coordinated nothing is asked', async ($, on) => {
  const asked = engine(on, { daemon: () => HELD, where: () => '\n\n/repo\n' })
  expect((await $.tool.call(WRITE)).deny).toBeUndefined()
  expect(asked.length).toBe(1)
})

test('the project that a file is in decides about it, wherever the session is', async ($, on) => {
  const there = argv => argv.includes('--of-edit')
  engine(on, {
    daemon: e => (e.init?.socketPath ?? e.socketPath) === '/other.sock' ? HELD : { is_elsewhere: true },
    where: argv => there(argv) ? '/other.sock\n/other\n\n' : PLACE,
  })
  expect((await $.tool.call({ ...WRITE, file_path: '/other/a.txt' })).deny).toBe('held by Ann')
})

test('a session that is in no project asks the one that a file is in', async ($, on) => {
  engine(on, { daemon: () => HELD, where: argv => argv.includes('--of-edit') ? PLACE : '\n\n\n' })
  expect((await $.tool.call(WRITE)).deny).toBe('held by Ann')
})

test('a look for the daemon that fails does not mean that nothing is coordinated', async ($, on) => {
  engine(on, { daemon: () => ({}), look: JSON.stringify(HELD), where: () => null })
  expect((await $.tool.call(WRITE)).deny).toBe('held by Ann')
})

test('the last look knows where the daemon was last', async ($, on) => {
  const asked = engine(on, { daemon: () => { throw new Error('refused') } })
  await $.tool.call(WRITE)
  expect(count(asked, '/repo')).toBe(1)
})

test('what runs is asked about once more', async ($, on) => {
  engine(on, { daemon: () => HELD })
  on('tool.run', () => ({ result: {} }))
  expect((await $.tool.run(WRITE)).deny).toBe('held by Ann')
})

test('what was let pass just now is not asked about again, unless something else is written by now', async ($, on) => {
  let isUp = false
  const asked = engine(on, { daemon: () => {
    if (!isUp) throw new Error('refused')
    return {}
  } })
  on('tool.run', () => ({ result: {} }))
  await $.tool.call(WRITE)
  isUp = true
  const before = count(asked, 'PreToolUse')
  await $.tool.run(WRITE)
  expect(count(asked, 'PreToolUse')).toBe(before)
  await $.tool.run({ ...WRITE, file_path: '/repo/b.txt' })
  expect(count(asked, 'PreToolUse')).toBe(before + 1)
})

test('what an answer that got lost would have brought is asked for with the next question', async ($, on) => {
  const origins = []
  engine(on, { daemon: e => {
    origins.push(JSON.parse(e.init?.body ?? e.body)._hook)
    if (origins.length === 1) throw new Error('it died')
    return {}
  } })
  await $.tool.call(WRITE)
  await $.tool.call({ ...WRITE, tool_use_id: 'toolu_2' })
  const [first, second, third] = origins
  expect(second.unheard).toEqual([first.sent, second.sent])
  expect(third.unheard).toBeUndefined()
})

test('where no daemon answers, the last look decides once more what runs later', async ($, on) => {
  engine(on, { daemon: () => { throw new Error('refused') }, look: JSON.stringify(HELD) })
  on('tool.run', () => ({ result: {} }))
  expect((await $.tool.run(WRITE)).deny).toBe('held by Ann')
})

test('a daemon that hangs is not waited for with every call', async ($, on) => {
  const limits = []
  const asked = engine(on, { daemon: never, sleep: ms => { limits.push(ms) } })
  await $.tool.call(WRITE)
  await $.tool.call({ ...WRITE, tool_use_id: 'toolu_2' })
  expect(limits).toEqual([4000, 1000])
  expect(count(asked, 'PostToolUse')).toBe(0)
})

const COPY = { name: 'mine', from: '/repo', for: 'session', base: 'fresh' } as const
const PLAIN = { path: '/repo/.claude/worktrees/mine', vcs: 'git' }

test('a worktree that Corral refuses is not made beside its own', async ($, on) => {
  engine(on, { daemon: () => { throw new Error('refused') }, refused: 'mine-2 is free' })
  on('vcs.isolate', () => ({ value: PLAIN }))
  expect((await $.vcs.isolate(COPY)).deny).toBe('mine-2 is free')
})
