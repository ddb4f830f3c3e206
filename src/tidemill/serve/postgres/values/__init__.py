"""Values as PostgreSQL's protocol carries them: types, text and binary formats, column by column."""
