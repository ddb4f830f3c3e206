SELECT customer FROM {{ ref('spending') }} WHERE amount < 0
