"""Real test hosts: systemd, journald, sshd and uv on a closed bridge, with a story laid out."""
