"""Which shell commands would sweep up other sessions' work, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.coordination.shell.danger import danger, target_directory

DANGEROUS = {
    "git stash": [
        "git stash",
        "git stash push -m x",
        "git stash -u",
        "git stash push -- src/a.py",
        "git stash pop",
        "git stash apply stash@{0}",
        "git stash drop",
        "git stash clear",
        "git stash save wip",
        "git stash -m list",
    ],
    "git reset --hard": [
        "git reset --hard",
        "git reset --hard HEAD~1",
        "git reset -q --hard origin/main",
        "git reset --merge",
        "git reset --keep HEAD^",
        "git reset --har",
    ],
    "git restore .": [
        "git checkout .",
        "git checkout -- .",
        "git checkout HEAD -- .",
        "git checkout HEAD .",
        "git checkout main -- src/",
        "git checkout -- src",
        "git checkout -- src/api",
        "git checkout :/",
        "git checkout -- ':/*.py'",
        "git checkout src/",
        "git checkout *",
        "git checkout -- src/*.py",
        "git checkout -f",
        "git checkout-index -a -f",
        "git checkout-index --force -- src/*.py",
        "git checkout -f main",
        "git checkout --force",
        "git checkout --theirs .",
        "git restore .",
        "git restore -- .",
        "git restore ./",
        "git restore ..",
        "git restore --staged --worktree .",
        "git restore --source=HEAD~1 src/",
        "git restore -s HEAD~1 -- src",
        "git restore :/",
        "git ls-files -m | xargs git checkout --",
        "git diff --name-only | xargs git restore",
        "find . -name '*.py' -exec git checkout -- {} \\;",
    ],
    "git clean -f": [
        "git clean -f",
        "git clean -fd",
        "git clean -xdf",
        "git clean -d --force",
        "git clean -fd build/",
        "git clean -f -e keep.txt",
    ],
    "git rm": [
        "git rm -r src",
        "git rm -rf .",
        "git rm '*.py'",
        "git rm -r --cached .",
        "git rm --pathspec-from-file=list",
        "git ls-files | xargs git rm",
    ],
    "git read-tree --reset": [
        "git read-tree --reset HEAD",
        "git read-tree --reset -u HEAD~1",
        "git read-tree -m -u HEAD~1",
    ],
    "git switch": [
        "git switch main",
        "git switch -c feature",
        "git switch -",
        "git switch --detach HEAD~2",
        "git checkout main",
        "git checkout feature/login",
        "git checkout -",
        "git checkout v1.2",
        "git checkout -b feature",
        "git checkout -B feature origin/main",
        "git checkout --detach",
        "git checkout main --",
    ],
    "git add -A": [
        "git add -A",
        "git add --all",
        "git add -u",
        "git add --update",
        "git add .",
        "git add ./",
        "git add :/",
        "git add *",
        "git add -v .",
        "git add -- .",
        "git add -Av",
        "git stage -A",
        "git diff --name-only | xargs git add",
    ],
    "git commit -a": [
        "git commit -a",
        "git commit -am 'message'",
        "git commit --all -m x",
        "git commit -vam x",
        "git commit -m x -a",
        "git commit -m x .",
        "git commit -m x -- :/",
        "git commit --amend -a --no-edit",
    ],
    "git rebase": ["git rebase main", "git rebase -i HEAD~3", "git rebase --abort", "git rebase"],
    "git merge": ["git merge feature", "git merge --abort", "git merge --no-ff x"],
    "git pull": ["git pull", "git pull --rebase origin main"],
    "git bisect": ["git bisect start HEAD v1", "git bisect good", "git bisect run make", "git bisect reset"],
    "git sparse-checkout": ["git sparse-checkout set src", "git sparse-checkout disable"],
    "gh pr checkout": ["gh pr checkout 12", "cd src && gh pr checkout fix --force"],
}
CASES = [(kind, command) for kind, commands in DANGEROUS.items() for command in commands]


@pytest.mark.parametrize(("kind", "command"), CASES)
def test_it_is_recognised(kind: str, command: str) -> None:
    found = danger(command)
    assert found is not None and found.kind == kind
    assert (
        danger(found.alternative.split("`")[1].replace("<your files>", "a.py").replace("<your file>", "a.py")) is None
    )


FRAMES = [
    "cd src && {}",
    "ls; {}",
    "true || {}",
    "{} | cat",
    "{} &",
    "ls\n{}\nls",
    "({})",
    "{{ {}; }}",
    "! {}",
    "if true; then {}; fi",
    "for f in a b; do {}; done",
    "while {}; do ls; done",
    "case x in a) {} ;; esac",
    "f() {{ {}; }}; f",
    "function f {{ {}; }}; f",
    "echo $({})",
    'echo "now: $({})"',
    "echo `{}`",
    "diff <({}) /dev/null",
    "echo $(( 1 << 2 )); {}",
    "# why\n{} # because",
    "A=1 B='x y' {}",
    "sudo -u root {}",
    "command {}",
    "exec {}",
    "time {}",
    "time -p {}",
    "env -u B A=1 {}",
    "nohup nice -n 5 {}",
    "timeout -k 5 30 {}",
    "xargs -n 1 -I % {}",
    "2>&1 {} >/dev/null",
    "cat <<'EOF'\nit's data\nEOF\n{}",
    "cat <<EOF\n$({})\nEOF",
    "cat <<-EOF\n\tdata\n\tEOF\n{}",
    "bash <<EOF\n{}\nEOF",
    "git status; {}",
]


@pytest.mark.parametrize("frame", FRAMES)
def test_it_is_recognised_wherever_it_stands(frame: str) -> None:
    for kind, commands in DANGEROUS.items():
        found = danger(frame.format(commands[0]))
        assert found is not None and found.kind == kind


@pytest.mark.parametrize(
    "command",
    [
        "git -C sub stash",
        "git -C 'a b' -c user.name=x stash",
        "git --git-dir=.git --work-tree . stash",
        "git --git-dir .git --no-pager stash",
        "GIT_DIR=.git git stash",
        "/usr/bin/git stash",
        "\\git stash",
        "'git' \"stash\"",
        "git st\\\nash",
        "git   stash",
        "bash -c 'git stash'",
        "bash -lc 'cd x && git stash'",
        'sh -c "echo a; git stash"',
        "bash -euo pipefail -c 'git stash'",
        "bash -c \"bash -c 'git stash'\"",
        "bash -c $'ls\\ngit stash'",
        "git $''stash",
        "bash <<< 'git stash'",
        "eval git stash",
        "echo git stash | sh",
        "echo 'ls; git stash' | bash -s",
        "printf 'ls\\ngit stash\\n' | sh",
        "printf '%s\\n' ls 'git stash' | sudo bash",
        "cat <<EOF | bash\ngit stash\nEOF",
        "echo 'git stash' | tee log | sh",
        "echo stash | xargs git",
        "echo x | xargs -I % sh -c 'git stash'",
        "eval 'git stash; ls'",
        "trap 'git stash' EXIT",
        "find . -maxdepth 1 -exec git stash \\;",
        "echo 'unclosed; git stash\n' && git stash",
        "cat <<EOF\nno end, so this is read as commands\ngit stash",
        "ls >/dev/null 2>&1;git stash",
        "git stash>log",
        "echo a#b; git stash",
        "$(git stash)",
        '"$(git stash)"',
        "echo ${x:-$(git stash)}",
        'echo "${x:-`git stash`}"',
    ],
)
def test_spellings_of_one_danger(command: str) -> None:
    found = danger(command)
    assert found is not None and found.kind == "git stash"


HARMLESS = [
    "",
    "ls -la",
    "git status",
    "git stash list",
    "git stash show -p",
    "git reset",
    "git reset HEAD~1 -- src/a.py",
    "git reset --soft HEAD~1",
    "git checkout -- src/a.py",
    "git checkout src/a.py",
    "git checkout ./Makefile",
    "git checkout -- Makefile",
    "git checkout HEAD~1 -- src/a.py README.md",
    "git checkout main src/a.py",
    "git checkout --ours src/a.py",
    "git checkout -- .gitignore",
    "git restore src/a.py",
    "git restore --staged -- src/a.py README.md",
    "git restore -s HEAD~1 -- $FILE",
    "git clean -n",
    "git clean -nfd",
    "git clean --dry-run -f",
    "git clean -f -- src/a.py",
    "git add src/a.py",
    "git add -A -- src/a.py",
    "git add -u src/a.py",
    "git add -n .",
    "git add -p",
    "git commit -m 'git stash'",
    "git commit -m -a",
    "git commit -ma",
    "git commit -m --all -- src/a.py",
    "git commit -uall -m x",
    "git commit --allow-empty -m x",
    "git commit --amend --no-edit",
    "git commit --dry-run -a",
    "git commit -F message.txt",
    "git fetch --all",
    "git push --all",
    "git branch -a",
    "git log --all",
    "git diff --stat .",
    "git merge-base main HEAD",
    "git rebase --show-current-patch",
    "git bisect log",
    "git sparse-checkout list",
    "gh pr checkout --help",
    "gh pr view 12",
    "git stash --help",
    "git rm src/a.py README.md",
    "git rm -n -r .",
    "git read-tree HEAD --index-output=x",
    "git read-tree -m HEAD",
    "git checkout-index -f -- src/a.py",
    "git checkout-index -a -f --prefix=out/",
    "git switch -h",
    "git worktree add ../x main",
    "echo git stash",
    "echo 'git stash; git add -A'",
    'echo "do not git stash"',
    "echo git; echo stash",
    "echo 'git stash' | cat",
    "echo 'git stash'; sh",
    "echo 'git stash' | sh build.sh",
    "grep -rn 'git reset --hard' docs",
    "# git stash",
    "ls # then git stash",
    "cat <<EOF > notes.md\nnever git stash\ngit add -A\nEOF",
    "cat <<'EOF'\n$(git stash)\n`git stash`\nEOF",
    "cat > x.sh <<-'EOF'\n\tgit stash\n\tEOF\nls",
    "python3 - <<'EOF'\nprint('git stash')\nEOF",
    'git commit -m "$(cat <<\'EOF\'\nDon\'t use git stash\n\ngit add -A is "bad" (`git clean -f`)\nEOF\n)"',
    "for f in git stash; do echo $f; done",
    "command -v git stash",
    "type git",
    "man git-stash",
    "ssh host ls git stash",
    "mygit stash",
    "git-stash-notes add -A",
    "x=git stash=1 ls",
    "printf '%s\\n' \"git stash\" > f",
    "gitk stash",
]


@pytest.mark.parametrize("command", HARMLESS)
def test_it_is_left_alone(command: str) -> None:
    assert danger(command) is None


def test_the_caller_may_know_what_is_a_folder() -> None:
    assert danger("git checkout -- Sources", is_folder=lambda path: path == "Sources") is not None
    assert danger("git checkout -- gradlew", is_folder=lambda path: False) is None


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("ls", "/w"),
        ("git stash", "/w"),
        ("cd sub && git stash", "/w/sub"),
        ("cd /other; make", "/other"),
        ("cd a && cd ../b && git add -A", "/w/a/../b"),
        ("(cd a && ls); git stash", "/w"),
        ("(cd a; (cd b; git stash))", "/w/a/b"),
        ("git -C sub stash", "/w/sub"),
        ("git -C a -C b stash", "/w/a/b"),
        ("cd a && git -C '/x y' add -A", "/x y"),
        ("git --git-dir=/r/.git stash", "/r"),
        ("git --git-dir /r/.git --work-tree /t stash", "/t"),
        ("GIT_DIR=/r/.git git stash", "/r"),
        ("GIT_WORK_TREE=/t git stash", "/t"),
        ("cd /a && git status; cd /b && git stash", "/b"),
        ("cd /a && git status; cd /b && git log", "/a"),
        ("cd $DIR && git stash", "/w"),
        ('git -C "$(pwd)" stash', "/w"),
        ("cd - && git stash", "/w"),
        ("bash -c 'cd x && git stash'", "/w/x"),
        ("cd a; bash -c 'git stash'", "/w/a"),
        ("pushd x; git stash", "/w/x"),
        ("echo $(cd x; git stash)", "/w/x"),
        ("cd x; echo $(git stash)", "/w/x"),
        ("git -C", "/w"),
        ("cd", str(Path.home())),
    ],
)
def test_where_it_works(command: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", place if command == "cd" else "/home/me")
    assert target_directory(command, Path("/w")) == Path(place)
    assert target_directory("cd ~/p && git stash", Path("/w")) == Path.home() / "p"
