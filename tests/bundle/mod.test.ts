import { expect, mock, test } from 'claude-code/testing'

const HELD = { hookSpecificOutput: { permissionDecision: 'deny', permissionDecisionReason: 'held by Ann' } }
const WRITE = { tool: 'Write', file_path: '/repo/a.txt', content: 'x', tool_use_id: 'toolu_1' } as const

const engine = (on, { daemon, look = '{}', where = '/repo/.corral/run/corral.sock\n/repo\n' }) => {
  const asked = []
  on('process.run', (_, e) => {
    asked.push(e.argv.at(-1))
    const stdout = String(e.argv.at(-1)).endsWith('where.py') ? where : look
    return { value: { exitCode: 0, stdout, stderr: '', isStdoutTruncated: false, isStderrTruncated: false } }
  })
  on('session.id', () => ({ value: 's-1' }))
  on('session.cwd', () => ({ value: '/repo' }))
  on('ui.log', () => ({ value: undefined }))
  on('clock.sleep', () => new Promise(() => undefined))
  on('http.fetch', (_, e) => {
    asked.push(e.url.split('/').at(-1))
    const answer = daemon(e)
    return { value: { status: 200, ok: true, headers: {}, text: JSON.stringify(answer) } }
  })
  on('tool.call', () => ({ result: {} }))
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
  const asked = engine(on, { daemon: () => HELD, where: '' })
  expect((await $.tool.call(WRITE)).deny).toBeUndefined()
  expect(asked.length).toBe(1)
})
