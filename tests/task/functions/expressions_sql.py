"""The SQL expressions that are compared with Spark, by family."""

import nested_sql

FAMILIES: dict[str, str] = {
    **nested_sql.FAMILIES,
    "arithmetic": """
i + i2 | i - i2 | i * i2 | i8 + i8 | i16 * i8 | l + l2 | l * l2 | l - i | i / i2 | i div i2 | l div l2 | i % i2
l % l2 | pmod(i, i2) | pmod(l, -3) | pmod(d, d2) | -i | -d | abs(i) | abs(d) | abs(i8) | d + d2 | d * d2 | d - f
f + f | d / d2 | f * 2 | d % d2 | f % 2 | i % 3 | i8 % 3 | -l | +i | (i + 1) * 2 - i2 | i8 / i16 | 7 % i2 | d / 2
i / 2 | i8 % i8 | pmod(i8, i16) | try_add(i, i2) | try_subtract(l, l2) | try_multiply(l, l2) | try_multiply(i, i2)
try_divide(i, i2) | try_mod(i, i2) | try_add(i8, i8) | try_divide(d, d2) | try_add(l, l2) | try_multiply(i16, i16)
try_subtract(i8, i16)""",
    "decimals": """
dec + dec3 | dec - dec3 | dec * dec3 | dec / dec3 | dec3 / dec | dec % dec3 | pmod(dec, dec3) | dec div dec3 | -dec
abs(dec) | dec + 1 | dec * 2 | dec - i | dec / 3 | dec2 + dec3 | dec2 * 2 | dec2 / dec | dec2 * dec | dec * dec
dec3 * dec3 * dec | try_add(dec2, dec2) | try_multiply(dec2, dec2) | try_divide(dec2, dec3) | try_divide(dec, dec3)
try_subtract(dec2, dec2) | dec > dec3 | dec2 = dec | dec < 2.5 | dec <=> dec | dec * 0.1 | 1 / dec | dec % 0.7
abs(dec2) | dec2 - dec3 | dec / dec | dec2 / dec2 | dec3 / 7 | try_mod(dec, dec3) | dec3 div 2
dec in (1.00, 2.5, 3)""",
    "comparison": """
i = i2 | i < i2 | i <= l | d = d2 | d < d2 | d <= d2 | d > d2 | d >= d2 | d <> d2 | d = double('nan') | d <=> d2
f > 1.5 | f = d | s = s2 | s < s2 | s >= s2 | s <=> s2 | b = b2 | b < b2 | b <=> null | bin < X'61' | bin = X'00FF'
dt < dt2 | ts <= ts2 | ts > '2020-01-01' | dt = '2020-02-29' | i between -1 and 5 | i is distinct from i2
d in (0.0, 1.5, double('nan')) | i in (1, 2, null) | s in ('a', 'abc', '') | s in ('a', null) | s not in ('a', 'b')
i in (1,2,3,4,5,6,7,8,9,10,11,12,1000) | i not in (1, 2, i2) | l in (1, 2, l2)
s in ('a','b','c','d','e','abc','g','h','i','j','k',null) | tn > timestamp_ntz'2000-01-01 00:00:00' | isnan(d)
nanvl(d, d2) | greatest(i, i2, 3) | least(i, i2) | greatest(d, d2) | least(d, d2, 0.0) | greatest(s, s2)
least(dt, dt2) | greatest(b, b2) | dt in (date'2020-02-29', date'1970-01-01') | ts in (timestamp'1970-01-01', ts2)
equal_null(d, d2) | i = '1' | dt > date'1582-10-10' | dec in (1,2,3,4,5,6,7,8,9,10,11,12.5)
year(dt) in (1,2,3,4,5,6,7,8,9,1582,2020,1970) | to_date(ts) in (date'2020-02-29', dt)
d in (1,2,3,4,5,6,7,8,9,10,11,0.5)""",
    "nested": """
array(i, i2) | array(s, null, s2) | array(array(i), null, array(i2, 3)) | struct(i, s)
named_struct('a', d, 'b', array(d, d2)) | array(1, 2, null) | array(named_struct('x', 1, 'y', 'a'))
map('a', i, 'b', i2) | map(1, s) | array(null) | struct(i, s).i | named_struct('x', i, 'y', struct(s, d)).y.d
array(struct(i, s), named_struct("i", i2, "s", s2)).s | array(i, i2, l)[1] | array(i, i2)[cast(b as int)]
get(array(i, i2), i8) | try_element_at(array(i, i2), 3 - cast(b as int)) | element_at(array(i, i2), 2)
element_at(array(i, i2), -1) | map('a', i, 'b', i2)['b'] | map('a', i)[s] | element_at(map(1, s, 2, s2), i)
map(0.0D, s, double('nan'), s2)[d] | size(array(i, null)) | size(if(b, array(i), null)) | cardinality(map(1, i))
array_size(array(i)) | size(split(s, 'a')) | array_contains(array(i, i2), 1) | array_contains(array(i, null), i2)
array_contains(array(d, d2), double('nan')) | array_contains(array(0.0D, d), d2) | array_contains(array(s, s2), s)
array_position(array(i, i2, 7), i2) | array_position(array(d, d2), double('nan'))
array_remove(array(i, i2, null), i2) | split(s, ',') | split(s, 'b') | split(s, '[ab]') | split(s, '\\\\.')
split(s, 'a', 2) | split(s, '\\\\s+') | split(s, 'a+', 0) | split(s, 'ab', -1) | sort_array(array(i, i2, null, 3))
sort_array(array(d, d2, 0.0D, -0.0D, null), false) | sort_array(split(s, 'a')) | array_sort(array(i, i2, null, 3))
array_sort(array(d, null, d2)) | array_sort(array(s, s2, 'b'))
sort_array(array(struct(i, s), named_struct("i", i2, "s", s2), null))
sort_array(array(array(i, i2), array(i), null, array(null, 1))) | array_distinct(array(i, i2, i, null, null))
array_distinct(array(d, d2, double('nan'))) | array_distinct(array(s, s2)) | concat(array(i), array(i2, null))
concat(array(i), if(b, array(i2), null)) | array(i) || array(i2) | array_join(array(s, s2), ',')
array_join(array(s, null, s2), s2) | array_join(array(s, null, s2), '-', 'none') | array_join(array(i, i2), '+')
array_join(array(s, s2), '-', s) | array_join(array(s), null) | sequence(1, 5) | sequence(i8, 3Y) | sequence(5, 1)
sequence(1L, 10L, 4L) | sequence(i16, -2S) | sequence(10, i8, if(i8 > 10, 7, -3)) | map_keys(map('b', i, 'a', i2))
map_values(map('b', i, 'a', i2)) | map_entries(map(1, s, 2, s2)) | map_from_arrays(array(1, 2), array(s, s2))
map_contains_key(map('a', i), s) | map_concat(map('a', i), map('b', i2)) | slice(array(i, i2, 3), 2, 5)
slice(array(i, i2, 3), -2, 1) | slice(array(i, i2), 3, 1) | slice(array(i, i2), -3, 2) | slice(array(i, i2), 1, 0)
reverse(array(i, i2, null)) | reverse(split(s, 'a')) | flatten(array(array(i, i2), array(null)))
flatten(array(array(i), if(b, array(i2), null))) | array_repeat(s, 2) | array_repeat(i, i % 5)
array_min(array(i, null, i2)) | array_max(array(d, d2)) | array_min(array(d, d2)) | array_max(array(s, s2))
array_min(array(if(b, i, null))) | array_union(array(i, i2, null), array(i, 7, null)) | array_append(array(i), i2)
array_intersect(array(d, d2), array(d2, 1.0D)) | array_except(array(i, i2, null, 1), array(i2))
arrays_overlap(array(i), array(i2, null)) | arrays_overlap(array(d), array(d2)) | array_prepend(array(s), s2)
array_compact(array(i, null, i2)) | array(i, i2) = array(i2, i) | array(i, null) = array(i2, null)
array(i) < array(i2, 1) | struct(i, s) >= named_struct("i", i2, "s", s2)
struct(d, s) = named_struct("d", d2, "s", s) | struct(d) <=> named_struct("d", d2)
array(d) <=> if(b, array(d2), null)
struct(i, s) in (named_struct("i", i2, "s", s), named_struct("i", 1, "s", "a"))
array(i) in (array(1), array(i2), null) | greatest(array(i), array(i2, 1))
least(struct(i, s), named_struct("i", i2, "s", s2)) | cast(array(i, null) as array<bigint>)
cast(array(i, i2) as array<string>) | cast(struct(i, s) as struct<a:double,b:string>)
cast(map('a', i) as map<string,string>) | coalesce(if(b, array(i), null), array(0))
if(b, struct(i), named_struct("i", i2)) | case when b then map('a', i) when b2 then map('b', i2) end
array(i) is null | if(b, array(s), null) is not null | array(cast(null as int)) | if(b, array(), array(i))
try_cast(array(sn) as array<int>) | array(dec, dec) | array(dt, dt2, null) | struct(ts, tn, bin, dec2)""",
    "logic": """
b and b2 | b or b2 | not b | b and null | b or null | not (b and b2) | b is null | b is not null | b is true
b is not false | b is unknown | i > 0 and s = 'a' | i > 0 or d > 1 | (b or i > 1) and not b2 | s is null or s = ''
null and false""",
    "conditional": """
if(b, i, i2) | case when i > 1 then 'big' when i < 0 then s else 'x' end | case i when 1 then 2 when 3 then 4 end
coalesce(i, i2, 7) | coalesce(s, s2) | nullif(i, 1) | nvl(s, 'none') | nvl2(s, i, i2) | ifnull(d, d2)
case when b then d end | if(i2 = 0, null, i) | case when i2 <> 0 then i % i2 else 0 end
case when i2 = 0 then 0.0 else i / i2 end | if(i2 = 0 or i2 is null, null, 10 div i2) | coalesce(dec, dec3)
decode(i, 1, 'one', 2, 'two', 'many') | zeroifnull(i) | nullifzero(i) | if(b, dec, dec2)
coalesce(dt, date'1500-03-01') | i2 <> 0 and i % i2 = 1 | i2 = 0 or i2 is null or 5 div i2 > 1
coalesce(try_cast(sn as int), -1) | case when b then dt else dt2 end | case when b then ts when b2 then ts2 end
case when b is null then 1 when b then 2 else 3 end | coalesce(null, i) | if(b, bin, null)
i > 0 and 100 div nullif(i, 0) > 20""",
    "casts": """
cast(i as string) | cast(l as string) | cast(d as string) | cast(f as string) | cast(dec as string)
cast(dec2 as string) | cast(dec3 as string) | cast(b as string) | cast(dt as string) | cast(ts as string)
cast(tn as string) | cast(bin as string) | cast(s as binary) | cast(i as double) | cast(l as double)
cast(d as float) | cast(f as double) | cast(i as float) | cast(dec2 as double) | cast(dec3 as float)
cast(i as boolean) | cast(d as boolean) | cast(dec as boolean) | cast(b as int) | cast(b as double)
cast(b as decimal(3,1)) | cast(i8 as bigint) | cast(i as tinyint) | cast(l as int) | cast(d as int)
cast(d as bigint) | cast(f as tinyint) | cast(dec as int) | cast(dec2 as bigint) | cast(i as decimal(5,2))
cast(l as decimal(20,0)) | cast(d as decimal(10,2)) | cast(f as decimal(10,3)) | cast(dec as decimal(5,1))
cast(dec2 as decimal(38,2)) | cast(sn as int) | cast(sn as bigint) | cast(sn as double) | cast(sn as float)
cast(sn as decimal(10,2)) | cast(sn as tinyint) | try_cast(sn as int) | try_cast(sn as bigint)
try_cast(sn as tinyint) | try_cast(sn as double) | try_cast(sn as float) | try_cast(sn as decimal(10,2))
try_cast(sn as decimal(38,10)) | try_cast(sn as boolean) | try_cast(s as boolean) | try_cast(s as date)
try_cast(sd as date) | try_cast(sd as timestamp) | try_cast(sd as timestamp_ntz) | try_cast(s as int)
try_cast(d as int) | try_cast(d as bigint) | try_cast(f as smallint) | try_cast(d as tinyint) | try_cast(l as int)
try_cast(i as tinyint) | try_cast(dec as tinyint) | try_cast(dec2 as bigint) | try_cast(d as decimal(10,2))
try_cast(f as decimal(10,3)) | try_cast(dec as decimal(4,1)) | try_cast(dec2 as decimal(20,3))
try_cast(i as decimal(5,2)) | try_cast(l as decimal(10,0)) | cast(sd as date) | cast(sd as timestamp)
cast(dt as timestamp) | cast(ts as date) | cast(tn as date) | cast(ts as timestamp_ntz) | cast(tn as timestamp)
cast(ts as bigint) | cast(ts as double) | cast(ts as decimal(20,6)) | cast(i as timestamp) | cast(i8 as timestamp)
cast(dt as timestamp_ntz) | cast(null as int) | cast(i as string) = '1' | string(i) || 'x' | i + sn | sn > 5
try_cast(ts as int) | cast(dec as decimal(20,5))""",
    "rounding": """
round(d, 2) | round(d) | round(d, -1) | round(f, 1) | round(dec, 1) | round(dec) | round(dec, -1) | round(dec2, 3)
round(i, -1) | round(l, -2) | bround(d, 1) | bround(dec, 1) | bround(d) | bround(i, -1) | ceil(d) | floor(d)
ceil(dec) | floor(dec) | floor(dec2) | ceil(i) | floor(l) | ceil(d, 1) | floor(dec, 1) | round(i, 2) | ceil(f)
floor(-d) | round(d, 5) | ceil(dec, -1) | floor(dec3, 2)""",
    "mathematics": """
sqrt(d) | exp(d) | ln(d) | log(d) | log(2, d) | log10(d) | log2(d) | log1p(d) | expm1(d) | pow(d, d2) | power(d, 2)
signum(d) | sign(dec) | cbrt(d) | sin(d2) | cos(d2) | tan(d2) | asin(d) | acos(d) | atan(d) | atan2(d, d2)
sinh(d2) | cosh(d2) | tanh(d) | degrees(d) | radians(d) | hypot(d, d2) | rint(d) | pow(i, 2) | sqrt(i) | log(d, d2)""",
    "bits": """
i & i2 | i | i2 | i ^ i2 | ~i | ~l | l & 255 | shiftleft(i, 2) | shiftright(i, 1) | shiftrightunsigned(i, 3)
shiftleft(l, i2) | shiftright(l, 70) | i << 33 | i >> i2 | i >>> 1 | l >>> 2 | bit_count(i) | bit_count(l)
bit_count(b) | i8 & i8 | i16 | i8""",
    "strings": """
upper(s) | lower(s) | length(s) | char_length(s) | octet_length(s) | bit_length(s) | length(bin) | octet_length(bin)
concat(s, s2) | s || '-' || s2 | concat(s, i) | concat_ws(',', s, s2) | concat_ws('-', s, 'x', s2)
concat_ws(s, s2, 'z') | substring(s, 2, 3) | substr(s, -2) | substr(s, 0, 2) | substr(s, -5, 4) | substring(s, 2)
substring(s, i, i2) | substring(bin, 2, 1) | left(s, 2) | right(s, 2) | left(s, -1) | right(s, 0) | left(s, i)
trim(s) | ltrim(s) | rtrim(s) | trim(both 'x' from s) | trim(leading 'a' from s) | trim(trailing 'bc' from s)
btrim(s, 'ax') | replace(s, 'a', 'zz') | replace(s, 'b') | replace(s, '', 'x') | lpad(s, 5, 'xy') | rpad(s, 5, 'xy')
lpad(s, 3) | rpad(s, 0, 'x') | lpad(s, 4, '') | lpad(s, i8, '日本') | rpad(s, -1, 'a') | repeat(s, 3)
repeat(s, i8 % 3) | reverse(s) | instr(s, 'b') | instr(s, '') | instr(s, 'X') | locate('a', s) | locate('a', s, 2)
locate('', s, 2) | locate('a', s, i8) | position('b' in s) | split_part(s, ',', 2) | split_part(s, 'X', -1)
split_part(s, '.', 1) | split_part(s, '', 1) | split_part(s, ',', 9) | initcap(s) | ascii(s) | chr(i)
translate(s, 'abc', 'xy') | substring_index(s, '.', 2) | substring_index(s, '.', -1) | substring_index(s, 'X', 1)
substring_index(s, 'an', -2) | startswith(s, 'a') | endswith(s, 'c') | contains(s, 'b') | s like 'a%' | s like '%b'
s like '%b%' | s like 'a_b' | s like 'a%b' | s like '_' | s like 'a\\\\%b' | s like 'a/_b' escape '/'
s like '%a%b%' | s ilike 'A%' | s ilike 'a_c' | s like any ('a%', '%c') | s like all ('a%', '_b%')
s not like 'a_%c' | s not like all ('a_c', '_') | s like any ('_', 'a_c') | s like '' | s like '%' | s like 'x_y'
hex(l) | hex(s) | hex(bin) | md5(s) | sha2(s, 256) | sha1(s) | s rlike 'a+b' | s rlike '^a.*c$' | s rlike '[A-Z]+'
s rlike 'x.y' | s rlike '\\\\d{2}' | s rlike '(an)+a' | s rlike 'y$' | s rlike '\\\\s'
regexp_extract(s, '(a)(b)', 2) | regexp_extract(s, '([a-z]+)([0-9]+)', 1) | regexp_extract(s, '[0-9]+', 0)
regexp_extract(s, '(x)|(a)', 1) | regexp_replace(s, '[aeiou]', '*') | regexp_replace(s, 'a+', '')
regexp_replace(s, '[^a-z]', '_') | regexp_like(s, 'b|c') | s rlike '^$' | s rlike '\\\\W' | upper(s) = 'ABC'
length(trim(s)) | lower(upper(s)) | length(i) | substr(s, i8) | substring(s, 1, 0) | substring(s, 100)
substring(s, -100, 100) | regexp_extract(s, '([^&a]+)(&|b)', 1) | s rlike '(^|&)[a&]'""",
    "intervals": """
ts2 - ts | ts - tn | dt - dt2 | dt - ts | tn - ts | ts + (dt - dt2) | (dt - dt2) + (dt2 - dt)
(dt - dt2) - interval '1' hour | ts + interval '1' hour * i8 | interval '2' day * (i16 / 7.0D) | interval '1' day * dec
(dt - dt2) * i8 | (dt - dt2) / 7 | (dt - dt2) / i2 | (dt - dt2) / 0.7 | (dt - dt2) / (1.5D + abs(i8)) | -(dt - dt2)
abs(dt - dt2) | sign(dt - dt2) | (dt - dt2) > interval '30' day | (ts2 - ts) = (ts2 - ts)
ts2 - ts <=> interval '0' second | extract(day from ts2 - ts) | extract(hour from ts2 - ts)
extract(minute from ts2 - ts) | extract(second from ts2 - ts) | date_part('days', dt - dt2)
coalesce(dt - dt2, interval '0' day) | cast(ts2 - ts as string) | cast(dt - dt2 as string)
cast(cast(ts2 - ts as interval day to minute) as string) | cast(cast(ts2 - ts as interval hour) as string)
cast(cast(ts2 - ts as interval minute to second) as string) | cast(dt - dt2 as int) | cast(ts2 - ts as bigint)
cast(cast(ts2 - ts as interval day to hour) as bigint) | cast(i8 as interval day)
cast(cast(ts2 - ts as interval hour to second) as string) | cast(cast(dt - dt2 as interval second) as string)
make_dt_interval(i8, i8, i16, dec) | make_dt_interval(i8) | greatest(dt - dt2, dt2 - dt)
(dt - dt2) in (interval '1' day) | case when b then dt - dt2 else ts - ts2 end
cast(make_ym_interval(i8, i16) as string) | cast(make_ym_interval(i8, i16) as int)
cast(cast(make_ym_interval(i8, i16) as interval year) as string)
cast(cast(make_ym_interval(i8) as interval month) as string) | extract(year from make_ym_interval(i8, i16))
extract(month from make_ym_interval(i8, i16)) | dt + make_ym_interval(i8, i8) | ts - make_ym_interval(0, i8)
cast(make_ym_interval(i8, 3) * i8 as string) | cast(make_ym_interval(i8, 3) / i2 as string)
cast(make_ym_interval(i8, 3) * dec as string) | cast(make_ym_interval(i8, 3) / 1.5D as string)
dt + interval 2 weeks | cast(make_ym_interval(i8) + make_ym_interval(0, i8) as string)
cast(-make_ym_interval(i8, 1) as string) | make_ym_interval(i8) < interval '1' year | dt + make_interval(0, 1)
ts + make_interval(0, 0, 1, 2, 3, 4, 5.5) | cast(cast(i8 as interval year) as string)
ts + cast(i8 as interval minute) | array(dt - dt2, interval '1' day)""",
    "zones": """
from_utc_timestamp(ts, 'Europe/Berlin') | to_utc_timestamp(ts, 'America/New_York')
from_utc_timestamp(ts, '+05:30') | to_utc_timestamp(ts, 'PST')
from_utc_timestamp(ts, if(b, 'Asia/Tokyo', 'Australia/Lord_Howe')) | to_utc_timestamp(ts, 'UTC-3')
from_utc_timestamp(ts, if(b, 'UTC', null))
to_utc_timestamp(timestamp'2021-03-28 02:30:00' + interval '1' minute * i8, 'Europe/Berlin')
to_utc_timestamp(timestamp'2021-10-31 01:00:00' + interval '1' minute * i8, 'Europe/Berlin')
from_utc_timestamp(timestamp'2021-10-31 00:30:00' + interval '1' minute * i8, 'Europe/Berlin')
convert_timezone('America/New_York', tn) | convert_timezone('Europe/Paris', 'Asia/Tokyo', tn)
from_utc_timestamp(ts, 'Z') | make_timestamp_ntz(2020, 1 + abs(i8) % 12, 1 + abs(i16) % 28, 3, 4, 5.25)
try_make_timestamp(i16, i8, i8, i8, i8, dec) | make_timestamp(2021, 3, 28, 2, i8 + 10, 7, 'Europe/Berlin')
try_make_timestamp(2020, 2, i8 + 20, 1, 1, 60) | try_make_timestamp_ntz(i16, i8, i8, i8, i8, dec)
make_timestamp_ltz(2021, 10, 31, 2, abs(i8), 59.999999, 'Europe/Berlin')""",
    "sequences": """
sequence(date'2020-01-31', date'2020-01-31' + abs(i8)) | sequence(date'2020-01-31' + i8, date'2020-01-31')
sequence(date'2020-01-31', date'2021-02-28', interval '1' month)
sequence(timestamp'2020-01-31', timestamp'2020-01-31' + interval '1' minute * abs(i8), interval '30' minute)
sequence(date'2020-01-31', date'2018-01-31', interval '-5' month)
sequence(timestamp_ntz'2020-01-31', timestamp_ntz'2020-01-31' + interval '1' day * abs(i8))
sequence(timestamp'2020-01-31 12:00:00', timestamp'2020-01-31 07:00:00', interval '-100' minute)
sequence(date'2020-01-01', date'2020-03-01', interval 2 week)
sequence(timestamp'2020-01-31 12:00:00', timestamp'2020-06-30 11:00:00', interval '1' month)
sequence(dt, dt, interval '1' year)""",
    "dates": """
year(dt) | month(dt) | day(dt) | quarter(dt) | dayofweek(dt) | weekday(dt) | dayofyear(dt) | weekofyear(dt)
extract(yearofweek from dt) | year(ts) | month(tn) | hour(ts) | minute(ts) | second(ts) | hour(tn)
extract(second from ts) | extract(week from ts) | extract(dow from dt) | date_part('month', ts) | date_add(dt, 3)
date_sub(dt, i8) | date_add(dt, i16) | datediff(dt, dt2) | dt + 3 | dt - interval '3' day | dt + interval '1' month
dt - interval '13' month | add_months(dt, i8) | add_months(dt, -1) | last_day(dt) | next_day(dt, 'mon')
next_day(dt, 'SUNDAY') | trunc(dt, 'month') | trunc(dt, 'week') | trunc(dt, 'quarter') | trunc(dt, 'year')
trunc(dt, 'nonsense') | date_trunc('hour', ts) | date_trunc('DAY', ts) | date_trunc('week', ts)
date_trunc('month', dt) | date_trunc('quarter', ts) | date_trunc('year', tn) | date_trunc('minute', ts)
date_trunc('second', ts) | date_trunc('millisecond', ts) | ts + interval '1' hour | ts - interval 1 day 2 hours
ts + interval '1' month | ts - interval '1' year | tn + interval '5' minute | timestampadd(hour, 3, ts)
timestampadd(month, i8, ts) | timestampadd(day, -1, tn) | timestampadd(week, 2, ts) | timestampdiff(hour, ts, ts2)
timestampdiff(day, ts, ts2) | timestampdiff(month, ts, ts2) | timestampdiff(year, ts, ts2)
timestampdiff(quarter, ts, ts2) | timestampdiff(second, ts, ts2) | months_between(ts, ts2) | months_between(dt, dt2)
months_between(ts, ts2, false) | unix_timestamp(ts) | unix_timestamp(dt) | to_unix_timestamp(ts) | unix_seconds(ts)
unix_millis(ts) | unix_micros(ts) | unix_date(dt) | date_from_unix_date(i16) | timestamp_seconds(i)
timestamp_millis(i) | timestamp_micros(l) | from_unixtime(i) | from_unixtime(i, 'yyyy-MM-dd')
date_format(ts, 'yyyy-MM-dd HH:mm:ss') | date_format(dt, 'yyyy/MM/dd') | date_format(ts, 'd MMM yyyy')
date_format(ts, 'EEEE, MMMM d') | date_format(ts, 'hh:mm a') | date_format(ts, 'HH:mm:ss.SSS')
date_format(ts, "yyyy'T'MM") | date_format(ts, 'yy M E') | date_format(ts, 'yyyyMM') | date_format(ts, 'SSSSSS')
date_format(ts, 'DDD') | date_format(ts, 'y') | try_to_timestamp(sd) | try_to_timestamp(sd, 'yyyy-MM-dd')
try_to_timestamp(sd, 'yyyy-MM-dd HH:mm:ss') | try_to_timestamp(sd, 'yyyy-M-d') | try_to_date(sd, 'yyyy-MM')
try_to_timestamp(sd, 'yyyy') | make_date(2020, 2, 29) | make_date(i16 + 2000, 3, 15) | monthname(dt) | dayname(dt)
to_date(ts) | date(ts) | to_timestamp(dt) | date_diff(ts, ts2) | date(dt) = date'2020-02-29'
year(dt) * 100 + month(dt) | dt between '1970-01-01' and '2020-12-31'
cast(date_trunc('day', ts) as date) = to_date(ts) | to_date(sd) | to_timestamp(sd)""",
    "text_columns": """
contains(s, s2) | startswith(s, s2) | endswith(s, s2) | contains(bin, substring(bin, 1, 1)) | startswith(bin, bin)
endswith(bin, X'FF') | instr(s, s2) | locate(s2, s) | locate(s2, s, 2) | locate(s2, s, i8) | locate(s2, s, i)
position(s2 in s) | replace(s, s2, 'x') | replace(s, s2) | replace(s, 'a', s2) | translate(s, s2, 'xyz')
translate(s, 'abc', s2) | substring_index(s, s2, 1) | substring_index(s, 'a', i8)
substring_index(s, substr(s2, 1, 1), -2) | split_part(s, substr(s2, 2, 1), 1) | split_part(s, s2, -1)
split(s, 'a|b') | split(s, '') | split(replace(s, '😀', 'y'), 'x*') | split(s, '(?=a)') | split(s, '', 2)
split(s, 'a', i8) | trim(both s2 from s) | trim(leading s2 from s) | trim(trailing s2 from s) | btrim(s, s2)
lpad(s, 7, s2) | rpad(s, i8, s2) | lpad(bin, 4) | rpad(bin, 5, X'01') | lpad(bin, 2, X'') | rpad(bin, 3, bin)
reverse(bin) | s like concat('%', replace(s2, chr(92), '')) | s like replace(s2, chr(92), '')
s ilike replace(s2, chr(92), '') | s rlike replace(replace(s2, chr(92), ''), '(', '') | left(s, i) | right(s, i)
right(s, i8) | left(bin, 2) | instr(s, 'a', 1, 2) | instr(s, 'a', -1) | instr(s, 'an', 2, 1) | instr(s, 'an', -1, 2)
instr(s, s2, i8) | instr(s, '', 1) | elt(1 + pmod(i, 3), s, s2, sn) | find_in_set(s, 'a,abc,,xyx')
find_in_set('a', s) | overlay(s, s2, 2) | overlay(s, 'XY', i8)
overlay(s, s2, i) | overlay(s, s2, i2, i) | overlay(s, s2, 3, i8) | overlay(s, 'é', -2, 1)
overlay(bin, X'0102', 2, 1) | concat('x', space(i8), 'y') | soundex(s) | soundex(sn) | soundex(concat('Tym', s))
levenshtein(s, s2) | levenshtein(s, s2, 2) | levenshtein(s, 'abc', i8) | jaro_winkler_similarity(s, s2)
jaro_winkler_similarity(s, 'banane') | mask(s) | mask(sn, 'Q', null, '#', '-') | mask(s, null, 'q') | luhn_check(sn)
luhn_check(cast(l as string)) | quote(s) | is_valid_utf8(s)
is_valid_utf8(bin) | make_valid_utf8(bin) | try_validate_utf8(bin) | concat_ws('-', s, split(s2, 'a'), null)
make_valid_utf8(s) | validate_utf8(s)
substring_index(concat(s, s2), 'aa', 2) | substring_index(concat(s, s), s2, -2) | substring_index(s, s2, i2)
translate(s, 'ab', chr(0)) | translate(s, s2, sn) | replace(concat(s, s2), s2, sn) | instr(s, '', 0)
rpad(s, i2 % 30, s2) | lpad(bin, i2 % 30, bin) | jaro_winkler_similarity(concat('😀', s), s2) | instr(s, s2, i2, 1)
split(s, replace(s2, chr(92), ''), i2) | split(s, '^a') | split(s, 'a|^b', 3) | initcap(concat(s2, s))
s like concat(replace(s2, chr(92), ''), '%_') | initcap(concat(s, ' éCOLE ', s2))
levenshtein(repeat(s, 20), concat(s2, repeat(s, 19))) | levenshtein(repeat(s, 20), repeat(s2, 18), i2)
try_validate_utf8(s) | typeof(s) | typeof(array(i)) | collation(s) | ascii(s) | chr(l) | char(i) | initcap(s)
repeat(s, i8 % 4)""",
    "encodings": """
base64(bin) | base64(s) | base64(repeat(s, 30)) | unbase64(base64(s)) | encode(s, 'utf-8') | encode(s, 'UTF-16')
encode(s, 'UTF-16LE') | encode(s, 'UTF-16BE') | encode(s, 'UTF-32') | encode(sn, 'US-ASCII')
encode(sn, 'iso-8859-1') | decode(encode(s, 'UTF-16'), 'UTF-16') | decode(bin, 'ISO-8859-1')
decode(encode(s, 'utf-16le'), 'utf-16LE') | decode(encode(s, 'UTF-32'), 'UTF-32')
decode(encode(s, 'utf-8'), 'UTF-8') | to_binary(hex(s)) | to_binary(s, 'utf-8') | to_binary(base64(s), 'base64')
try_to_binary(s) | try_to_binary(s, 'base64') | try_to_binary(sn, 'hex') | unhex(s) | unhex(sn) | unhex(hex(bin))
hex(unhex(sn)) | to_base32(bin) | to_base32(s) | from_base32(to_base32(s))
from_base32(s) | from_base32(sn) | url_encode(s)
url_encode(concat(s, ' *~/?&=%')) | url_decode(url_encode(s)) | try_url_decode(concat(s, '%4'))
try_url_decode(concat('a%41+', s)) | try_url_decode(s) | md5(s) | md5(bin) | sha(bin) | sha1(s) | sha2(s, 224)
sha2(bin, 512) | sha2(s, 0) | sha2(s, 384) | crc32(s) | crc32(bin) | hex(hmac('key', s))
hmac(concat(bin, X'00'), s, 'SHA512') | hmac(concat(s, 'k'), bin, 'MD5') | to_char(bin, 'hex')
to_char(bin, 'base64') | to_varchar(encode(s, 'utf-8'), 'utf-8')
parse_url(concat('http://h.com/p?', 'q=', url_encode(s)), 'QUERY') | try_parse_url(s, 'HOST')
try_parse_url(s, 'PATH')
parse_url('http://user:pw@Host.org:80/a/b?x=1&y=2#frag', elt(1 + pmod(i, 5), 'HOST', 'PATH', 'QUERY', 'REF', 'FILE'))
parse_url('http://user:pw@Host.org:80/a/b', elt(1 + pmod(i, 3), 'PROTOCOL', 'AUTHORITY', 'USERINFO'))
parse_url('https://[::1]:8080/?a=b&c=d', 'HOST') | parse_url(concat('mailto:x@', 'y.org'), 'PATH')
try_parse_url(concat('http://', s), 'HOST') | try_parse_url(concat('http://', s), 'AUTHORITY')
try_parse_url(concat('http://h_x/', s, '?k=', sn), 'QUERY', 'k')
try_parse_url(concat('http://h_x/', s, '?k=', sn), 'FILE') | parse_url('http://a.b/c?x=1&y=2', 'QUERY', 'y')
parse_url('http://a.b/c?x=1&y=2', 'REF', 'y') | try_parse_url(concat(s, '://h/p#f'), 'PROTOCOL')
parse_url('//h/p', 'HOST') | try_parse_url(concat('http://1.2.3.', i), 'HOST')
try_parse_url(concat('http://x.y:', sn), 'HOST')""",
    "hashes": """
hash(i) | hash(l) | hash(i8) | hash(i16) | hash(b) | hash(f) | hash(d) | hash(s) | hash(bin) | hash(dt) | hash(ts)
hash(tn) | hash(dec) | hash(dec2) | hash(dec3) | hash(s, i, d, null, bin) | hash(array(i, i2, null))
hash(struct(s, d, array(dec))) | hash(array(array(s), null, array(s2, s))) | hash(null)
hash(split(s, 'a'), struct(struct(i), b)) | hash(repeat(s, 20)) | xxhash64(i) | xxhash64(l) | xxhash64(i8)
xxhash64(b) | xxhash64(f) | xxhash64(d) | xxhash64(s) | xxhash64(bin) | xxhash64(dt, ts, tn) | xxhash64(dec)
xxhash64(dec2) | xxhash64(dec3) | xxhash64(s, i, d, null, bin) | xxhash64(array(i, i2, null))
xxhash64(struct(s, d, array(dec))) | xxhash64(repeat(s, 20), l) | xxhash64(array(struct(s, i)))""",
    "regexes": """
regexp_extract_all(s, '[a-z]', 0) | regexp_extract_all(s, '(a)(b)?', 2) | regexp_extract_all(sn, '(\\\\d)(\\\\d)')
regexp_extract_all(replace(s, '😀', 'y'), 'a*', 0) | regexp_count(s, 'a') | regexp_count(replace(s, '😀', 'y'), '')
regexp_count(s, replace(s2, chr(92), '')) | regexp_count(s, '(?i)A') | regexp_instr(s, 'b')
regexp_instr(s, '[^ -~]') | regexp_instr(s, 'x|本|c') | regexp_substr(s, '[a-c]+') | regexp_substr(s, '[^a]$')
regexp_replace(s, '(a)(b)', '$2$1') | regexp_replace(s, 'a', '<$0>') | regexp_replace(s, 'a', '\\\\$')
regexp_replace(s, 'a', 'X', 2) | regexp_replace(s, 'a', replace(s2, chr(92), '-')) | regexp_replace(s, '[a-z]', i8)
regexp_replace(replace(s, '😀', 'y'), '', '-') | regexp_replace(replace(s, '😀', 'y'), 'a*', '.')
regexp_replace(s, '(b)|(c)', '[$1$2]') | regexp_replace(s, '^', '>') | regexp_replace(s, '$', '<')
regexp_replace(s, '[a-z]', '', 3) | regexp_replace(s, '(a)', '$10') | s rlike '(?i)ÉCOLE|ABC'
s rlike '(?i)straSSE|b' | s rlike 'a(?=b)' | s rlike '^(?!a)' | s rlike '(?<=a)b' | s rlike '(.)\\\\1'
s rlike '\\\\bb' | s rlike 'o\\\\b' | s rlike '\\\\Ba' | s rlike '\\\\Aa.c\\\\z' | s rlike 'a$|c$'
s rlike '\\\\Q.\\\\E' | s rlike '(a|b$)' | s rlike '^$|x$' | regexp_extract(s, '(a+)(.)', i8 % 3 * 0 + 1)
regexp_extract(s, '(?i)(A)(B)', 2) | regexp_extract(s, 'b$', 0) | regexp_extract(s, '(\\\\w+)\\\\b', 1)
split(s, 'a(?=b)') | split(s, '\\\\b') | split(s, '(?<=,)') | split(s, '[,.]', 2) | regexp_replace(s, '\\\\b', '|')
regexp_count(s, '\\\\S+') | regexp_extract_all(concat(s, s2), '([a-c])([bx])?', 2) | regexp_extract_all(s, '^(a)', 1)
regexp_extract_all(s, '.', 0) | regexp_replace(s, '(b)|(a)', '$2\\\\\\\\$1') | regexp_instr(concat('😀', s), 'b')
regexp_instr(concat(s, '日'), '[b日]')""",
    "formats": """
format_number(d, 2) | format_number(d, 0) | format_number(f, 3) | format_number(dec, 1) | format_number(dec2, 4)
format_number(i, 0) | format_number(l, 2) | format_number(d, i8 + 0) | format_number(dec3, 1 + i8)
format_number(d, '#,###.##') | format_number(d, '0000.0#') | format_number(d, '##.###') | format_number(i, '###')
format_number(d, '') | format_number(dec, '#,##0.00') | format_string('%d|%s|%x', i, s, l)
format_string('%5d|%-6d|%06d|%,d|%+d|% d|%(d', i, i, i, i, i, i, i) | printf('%s', d)
format_string('%.2f|%10.3f|%-10.1f|%,.2f|%08.2f', d, d, d, d, d) | format_string('%e|%.3e', d, d)
format_string('%b|%B', b, s) | format_string('%2$s %1$s', s, s2) | format_string('%5s|%-5s|%.2s', s, s, s)
format_string('%%%n') | format_string('%x %X %o', i, l, i8) | format_string('%S', s) | format_string('%s %s', dec, f)
format_string('%c', 65 + i8 % 20) | format_string('x') | to_char(i, '9999999999') | to_char(i, 'S9999999999')
to_char(l, '999') | to_char(dec, '99,999,999,999.99') | to_char(dec, '$99G999G999G999D99')
to_char(dec, '9999999999.99MI') | to_char(dec, 'S9,999,999,999.99') | to_char(dec, '9999999999.99PR')
to_char(dec, '0000000000.000') | to_char(dec, '9.9') | to_char(i, '0000000000S')
to_char(dec3, '9999999999999999.9999') | to_char(dec, 'MI$999.99') | to_char(dec, '000999.99') | to_char(i8, '99')
to_char(dec, '0,000,009,999.99') | try_to_number(sn, '999') | try_to_number(sn, 'S999.99')
try_to_number(sn, '9,999') | try_to_number(sn, '$99.99') | try_to_number(sn, '000') | try_to_number(sn, '99.9MI')
try_to_number(concat('<', sn, '>'), '99PR') | try_to_number(sn, '999999')
try_to_number(to_char(i8, 'S999'), 'S999') | to_number(to_char(i8, '9,999MI'), '9,999MI')
try_to_number(elt(1 + pmod(i, 10), ' +1', '+ 1', '1 +', '$ 1', '1, 2', '$1', '- 1', '1-', '-$1', '$-1'), 'S99')
to_char(dec, '$999.99')
try_to_number(elt(1 + pmod(i, 10), ' +1', '+ 1', '1 +', '$ 1', '1, 2', '$1', '- 1', '1-', '-$1', '$-1'), '$9,9')
try_to_number(elt(1 + pmod(i, 10), ' +1', '+ 1', '1 +', '$ 1', '1, 2', '$1', '- 1', '1-', '-$1', '$-1'), 'MI$99')
try_to_number(elt(1 + pmod(i, 10), ' +1', '+ 1', '1 +', '$ 1', '1, 2', '$1', '- 1', '1-', '-$1', '$-1'), '99S')
try_to_number(elt(1 + pmod(i, 8), '1,234', '12,34', '1234', ',234', '0,1', '001,234', '.5', '1,234.5'), '9,999.9')
try_to_number(elt(1 + pmod(i, 8), '1,234', '12,34', '1234', ',234', '0,1', '001,234', '.5', '1,234.5'), '000,999')
to_char(dec, 'S$99.99') | to_char(dec, '99.99S') | to_char(dec, '$99PR') | to_char(dec, '0,999,999')
to_char(dec, 'MI99.9') | conv(sn, 10, 2) | conv(sn, 16, 10) | conv(s, 36, 10) | conv(i, 10, -16) | conv(i8, 10, 16)
conv(i8, 16, -10) | conv(sn, 10, 99) | conv(i8, 8, i8) | bin(i) | bin(l) | bin(i8)""",
    "few_numbers": """
factorial(i) | factorial(i8) | width_bucket(d, 0, 10, 5) | width_bucket(d, 10, -5, 4) | width_bucket(d, d2, 5.0, 3)
width_bucket(i, i2, l, l2) | width_bucket(f, -1.5, 100, i) | acosh(d) | asinh(d) | atanh(d) | cot(d) | sec(d2)
csc(d) | e() | pi() | bit_get(i, 3) | getbit(l, 63) | bit_get(i8, pmod(i, 8)) | bitmap_bit_position(l)
bitmap_bit_position(i) | bitmap_bucket_number(l) | bitmap_bucket_number(i) | bitmap_count(bin) | positive(i)
format_number(dec, i2 % 9) | format_number(l, '#,##0') | format_string('%.0f|%,.1f|%-9.2f|%9d|%s', d2, d, d, l, s2)
nullif(s, 'a') | zeroifnull(d) | equal_null(s, s2) | bround(d, -2) | try_add(dt, 1) | try_add(dt, i)
assert_true(i is null or i is not null) | coalesce(s, raise_error('none')) is null or true""",
}


def listed(family: str) -> list[str]:
    """The expressions of one family. ``|`` with blanks separates them, except between integer columns."""
    text = FAMILIES[family].replace("\n", " | ")
    parts = [part.strip() for part in text.split(" | ") if part.strip()]
    if family == "bits":
        parts = [p for p in parts if p not in ("i", "i2", "i16", "i8")] + ["i | i2", "i16 | i8"]
    return parts


FAILURES: list[tuple[str, str]] = [
    *nested_sql.FAILURES,
    ("TM3010", "array(i, i2)[i8]"), ("TM3010", "element_at(array(i, i2), i8)"), ("TM3010", "array(i, i2)[2]"),
    ("TM3010", "element_at(array(i), i2)"), ("TM3010", "try_element_at(array(i), i8)"),
    ("TM3004", "slice(array(i), i2, 1)"),
    ("TM3004", "slice(array(i), 1, i2)"), ("TM3004", "sequence(1, i8, -1)"), ("TM3004", "sequence(1, i8, 0)"),
    ("TM3004", "sequence(1, l)"), ("TM3004", "map(i, 1, i2, 2)"), ("TM3004", "map(s, 1)"),
    ("TM3004", "map_from_arrays(array(1), array(i, i2))"), ("TM3003", "cast(array(s) as array<int>)"),
    ("TM3001", "i / 0"), ("TM3001", "i div i2"), ("TM3001", "i % 0"), ("TM3001", "pmod(i, 0)"), ("TM3001", "dec / 0"),
    ("TM3001", "dec % 0"), ("TM3001", "dec div 0"), ("TM3001", "case when i2 = 0 then i / i2 else 1 end"),
    ("TM3001", "i2 = 0 and i % i2 = 1"), ("TM3001", "coalesce(cast(null as int), i / 0)"),
    ("TM3001", "if(b, 1, 1 div (i2 - i2))"),
    ("TM3002", "i + i2"), ("TM3002", "i8 + i8"), ("TM3002", "i16 * i16"), ("TM3002", "l * 9223372036854775807"),
    ("TM3002", "abs(l)"), ("TM3002", "-i8"), ("TM3002", "l div -1"), ("TM3002", "cast(d as int)"),
    ("TM3002", "cast(d as bigint)"), ("TM3002", "cast(l as int)"), ("TM3002", "cast(i as tinyint)"),
    ("TM3002", "cast(dec as tinyint)"), ("TM3002", "cast(dec as decimal(4,2))"), ("TM3002", "cast(d as decimal(4,2))"),
    ("TM3002", "cast(l as decimal(10,0))"), ("TM3002", "cast(ts as int)"), ("TM3002", "dec2 * dec2"),
    ("TM3002", "ceil(d)"), ("TM3002", "floor(d)"),
    ("TM3002", "timestamp_seconds(l)"), ("TM3002", "timestamp_millis(l)"),
    ("TM3002", "add_months(dt, 2147483647)"),
    ("TM3001", "(dt - dt2) / (i2 - i2)"), ("TM3002", "(ts2 - ts) * l"),
    ("TM3002", "cast(make_ym_interval(i) as string)"),
    ("TM3002", "cast(ts2 - ts as int)"), ("TM3004", "from_utc_timestamp(ts, s)"),
    ("TM3004", "sequence(dt, dt2, interval '1' day)"),
    ("TM3004", "make_timestamp(2020, i, 1, 1, 1, 1)"),
    ("TM3003", "cast(sn as int)"), ("TM3003", "cast(sn as double)"), ("TM3003", "cast(sn as boolean)"),
    ("TM3003", "cast(sn as decimal(10,2))"), ("TM3003", "cast(sd as date)"), ("TM3003", "cast(sd as timestamp)"),
    ("TM3003", "to_timestamp(sd, 'yyyy-MM-dd')"), ("TM3004", "make_date(i, 1, 1)"), ("TM3004", "split_part(s, ',', 0)"),
    ("TM3004", "split_part(s, s2, i)"), ("TM3004", "encode(s, 'US-ASCII')"), ("TM3004", "encode(s, s2)"),
    ("TM3004", "decode(bin, 'UTF-8')"), ("TM3004", "unbase64(s)"), ("TM3004", "to_binary(s)"),
    ("TM3004", "to_binary(s, 'base64')"), ("TM3004", "url_decode(concat(s, '%'))"),
    ("TM3004", "parse_url(s, 'HOST')"), ("TM3004", "to_number(sn, '999')"),
    ("TM3002", "conv(repeat('9', 5 + i8), 10, 2)"),
    ("TM3004", "regexp_extract(s, s2, 0)"), ("TM3004", "regexp_replace(s, 'a', '$' || s2)"), ("TM3004", "s like s2"),
    ("TM3010", "elt(i, s, s2)"), ("TM3004", "bit_get(i, i2)"), ("TM3011", "assert_true(i > 0)"),
    ("TM3011", "coalesce(s, raise_error('no text'))"), ("TM3004", "hmac(bin, s)"), ("TM3004", "validate_utf8(bin)"),
    ("TM3004", "instr(s, 'a', 1, i)"),
]  # fmt: skip
"""SQL that fails on the extreme rows, in Spark and here, and the number of the error."""
